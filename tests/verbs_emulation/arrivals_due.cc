// What has arrived, and is still to come to memory, when something needs it there.
#include <algorithm>

#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {
namespace {

/// Calls `use` with every list of landings, and the queue pair that they are of.
template <class Use>
void forEachList(const Use& use) {
  for (auto& [handle, queue] : world().completionQueues)
    for (Completion& each : queue->entries) use(*each.pair, each.landings);
  for (auto& [handle, pair] : world().queuePairs) {
    use(*pair, pair->arrivals);
    use(*pair, pair->readings);
  }
}

bool touches(const std::vector<Landing>& landings, const Region& region) {
  const auto* const begin = static_cast<const uint8_t*>(region.addr);
  return std::any_of(landings.begin(), landings.end(), [&](const Landing& landing) {
    return std::any_of(landing.to.begin(), landing.to.end(), [&](const Span& span) {
      return span.data < begin + region.length && begin < span.data + span.bytes;
    });
  });
}

}  // namespace

void landOf(QueuePair& pair) {
  if (!world().relaxed) return;
  forEachList([&](const QueuePair& of, std::vector<Landing>& landings) {
    if (&of == &pair) land(landings, world().order);
  });
}

void landIn(const Region& region) {
  forEachList([&](const QueuePair&, std::vector<Landing>& landings) {
    if (touches(landings, region)) land(landings, world().order);
  });
}

}  // namespace eccl::verbs_emulation
