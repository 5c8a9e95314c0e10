// What the transports of a rank are told of it.
#pragma once

#include "transport/connect/connector.h"

namespace eccl::transport {

/// By the options, which outlive it.
TransportContext contextOf(const ConnectorOptions& options, Reactor& reactor);

}  // namespace eccl::transport
