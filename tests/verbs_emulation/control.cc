// What tests ask for: verbs_emulation.h.
#include <unistd.h>
#include <cerrno>

#include "verbs_emulation/engine.h"

using namespace eccl::verbs_emulation;

namespace {

int clamped(size_t count) {
  return static_cast<int>(count);
}

template <class Registry>
void count(const Registry& registry, uint64_t* counter) {
  *counter = registry.size();
}

}  // namespace

extern "C" {

int verbsEmulationReset() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const size_t alive = w.contexts.size() + w.domains.size() + w.regions.size() + w.channels.size() +
                       w.completionQueues.size() + w.sharedQueues.size() + w.queuePairs.size();
  for (const auto& [handle, pair] : w.queuePairs) landOf(*pair);
  w.queuePairs.clear();
  w.pairsByNumber.clear();
  w.sharedQueues.clear();
  w.completionQueues.clear();
  w.channels.clear();
  w.localKeys.clear();
  w.remoteKeys.clear();
  w.regions.clear();
  w.domains.clear();
  for (auto& [handle, context] : w.contexts) close(context->get()->cmd_fd);
  w.contexts.clear();
  for (auto& [list, handles] : w.lists) delete[] list;
  w.lists.clear();
  w.begin();
  return clamped(alive);
}

void verbsEmulationCounters(VerbsEmulationCounters* counters) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  *counters = w.counters;
  count(w.contexts, &counters->contexts);
  count(w.domains, &counters->domains);
  count(w.regions, &counters->regions);
  count(w.channels, &counters->channels);
  count(w.completionQueues, &counters->completionQueues);
  count(w.queuePairs, &counters->queuePairs);
  count(w.sharedQueues, &counters->sharedQueues);
}

void verbsEmulationTolerate(int on) {
  const std::lock_guard lock(world().mutex);
  world().tolerant = on != 0;
}

int verbsEmulationQueuePairs(uint32_t* numbers, int room) {
  const std::lock_guard lock(world().mutex);
  int at = 0;
  for (const auto& [number, pair] : world().pairsByNumber) {
    if (at < room) numbers[at] = number;
    ++at;
  }
  return at;
}

int verbsEmulationQueuePairState(uint32_t number) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().pairsByNumber.find(number);
  return found == world().pairsByNumber.end() ? -1 : found->second->now.qp_state;
}

int verbsEmulationQueuePairAttributes(uint32_t number, ibv_qp_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().pairsByNumber.find(number);
  if (found == world().pairsByNumber.end()) return EINVAL;
  *attributes = found->second->now;
  return 0;
}

int verbsEmulationUdpPort(uint32_t number) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().pairsByNumber.find(number);
  return found == world().pairsByNumber.end() ? -1 : found->second->udpPort;
}

int verbsEmulationBreakQueuePair(uint32_t number) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().pairsByNumber.find(number);
  if (found == world().pairsByNumber.end()) return EINVAL;
  raiseOf(*found->second, IBV_EVENT_QP_FATAL);
  toError(*found->second);
  progress(nullptr);
  return 0;
}

int verbsEmulationFailCompletion(uint32_t number, int side, int which, ibv_wc_status status) {
  const std::lock_guard lock(world().mutex);
  if (which < 1 || side < VERBS_EMULATION_SENDS || side > VERBS_EMULATION_BOTH || status == IBV_WC_SUCCESS)
    return EINVAL;
  world().failingCompletions.push_back({number, side, which, status});
  return 0;
}

int verbsEmulationFailCall(const char* function, int which, int error) {
  const std::lock_guard lock(world().mutex);
  if (which < 1 || error == 0) return EINVAL;
  world().failingCalls.push_back({function, which, error});
  return 0;
}

void verbsEmulationLimitMemory(uint64_t bytes) {
  const std::lock_guard lock(world().mutex);
  world().memoryLimit = bytes;
}

void verbsEmulationLimitPoll(int completions) {
  const std::lock_guard lock(world().mutex);
  world().pollLimit = completions;
}

void verbsEmulationHold(int on) {
  const std::lock_guard lock(world().mutex);
  world().held = on != 0;
  progress(nullptr);
}

int verbsEmulationHoldQueuePair(uint32_t number, int on) {
  const std::lock_guard lock(world().mutex);
  const auto found = world().pairsByNumber.find(number);
  if (found == world().pairsByNumber.end()) return EINVAL;
  found->second->held = on != 0;
  progress(nullptr);
  return 0;
}

int verbsEmulationSetOrder(VerbsEmulationOrder order, int relaxed) {
  const std::lock_guard lock(world().mutex);
  if (order < VERBS_EMULATION_FORWARD || order > VERBS_EMULATION_SHUFFLED) return EINVAL;
  for (const auto& [handle, pair] : world().queuePairs) landOf(*pair);
  world().order = order;
  world().relaxed = relaxed != 0;
  return 0;
}

}  // extern "C"
