#include "transport/connect/transport_context.h"

#include "transport/fault/fault_plan.h"

namespace eccl::transport {

TransportContext contextOf(const ConnectorOptions& options, Reactor& reactor) {
  TransportContext context{.rank = options.rank};
  context.reactor = &reactor;
  context.system = options.system;
  context.ring = options.ring;
  context.firstMessage = options.firstMessage;
  context.epoch = options.epoch;
  context.allowDirect = options.allowDirect;
  context.directFrom = options.directFrom;
  context.singleCopy = options.singleCopy;
  context.slotStreaming = options.slotStreaming;
  context.zeroCopyFrom = options.zeroCopyFrom;
  context.partBytes = options.partBytes;
  context.bytesPerCall = options.faults != nullptr ? options.faults->bytesPerCall : SIZE_MAX;
  context.endpoint = options.endpoint;
  context.describe = options.describe ? options.describe : [](int rank) { return format("rank %d", rank); };
  context.setting = options.setting ? options.setting : [](std::string_view) { return std::string(); };
  return context;
}

}  // namespace eccl::transport
