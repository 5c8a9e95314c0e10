// Ranks anywhere: one TCP socket for each connection, the one over which it was set up.
#pragma once

#include "transport/core/transport.h"

namespace eccl::transport {

extern const TransportEntry kTcpTransport;

}  // namespace eccl::transport
