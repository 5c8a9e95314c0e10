// What another rank says of flows: decoded, or refused; and what is decoded is encoded to the same bytes.
#include <cstdlib>
#include <string_view>

#include "transport/flows/flow_message.h"
#include "transport/flows/flow_planner.h"

using namespace eccl;
using namespace eccl::transport;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Result<FlowMessage> message = FlowMessage::decode(bytes);
  if (!message.ok()) return 0;
  const Result<FlowMessage> again = FlowMessage::decode(message->encode());
  if (!again.ok() || again->ways != message->ways) std::abort();
  FlowPlanner planner;
  planner.hear(1, message.take(), TimePoint(std::chrono::seconds(1)));
  planner.progress(TimePoint(std::chrono::seconds(9)), [](int, const FlowMessage&) {});
  return 0;
}
