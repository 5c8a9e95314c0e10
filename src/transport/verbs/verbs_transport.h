// The transport `verbs`: InfiniBand and RoCE by libibverbs.
#pragma once

#include "transport/core/transport.h"

namespace eccl::transport::verbs {

extern const TransportEntry kVerbsTransport;

}  // namespace eccl::transport::verbs
