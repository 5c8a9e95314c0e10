// Ranks that are threads of one process: a ring in its memory, and each other's memory in place.
#pragma once

#include "transport/core/transport.h"

namespace eccl::transport {

extern const TransportEntry kThreadTransport;

}  // namespace eccl::transport
