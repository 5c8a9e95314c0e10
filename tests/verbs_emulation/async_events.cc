// Asynchronous events: raised by the devices, taken and acknowledged by the user.
#include <type_traits>

#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {
namespace {

/// The count of taken events of what `event` is about; null for ports and devices.
unsigned* unacknowledgedOf(const ibv_async_event& event) {
  const auto countOf = [](auto& registry, const void* handle) -> unsigned* {
    const auto found = registry.find(handle);
    return found == registry.end() ? nullptr : &found->second->asyncUnacknowledged;
  };
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return countOf(world().completionQueues, event.element.cq);
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return countOf(world().queuePairs, event.element.qp);
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return countOf(world().sharedQueues, event.element.srq);
    default:
      return nullptr;
  }
}

}  // namespace

void raise(Context& context, const ibv_async_event& event) {
  context.events.push(event);
  ++world().counters.asyncEvents;
}

void raiseOf(QueuePair& pair, ibv_event_type type) {
  ibv_async_event event{};
  event.element.qp = &pair;
  event.event_type = type;
  raise(*pair.owner->owner, event);
}

void raiseOf(Device& device, ibv_event_type type, int port) {
  ibv_async_event event{};
  event.element.port_num = port;
  event.event_type = type;
  for (auto& [handle, context] : world().contexts)
    if (&context->device() == &device) raise(*context, event);
}

}  // namespace eccl::verbs_emulation

using namespace eccl::verbs_emulation;

extern "C" {

int ibv_get_async_event(ibv_context* handle, ibv_async_event* event) {
  int error = 0;
  {
    const std::lock_guard lock(world().mutex);
    if (living(world().contexts, handle, "context", "ibv_get_async_event") == nullptr) return -1;
    if (world().fails("ibv_get_async_event", &error)) return -1;
  }
  bool lost = false;
  const int result = await(world().mutex, handle->async_fd, [&] {
    Context* const context = living(world().contexts, handle, "context", "ibv_get_async_event");
    lost = context == nullptr;
    if (lost || !context->events.pop(event)) return lost;
    if (unsigned* const count = unacknowledgedOf(*event); count != nullptr) ++*count;
    return true;
  });
  return lost ? -1 : result;
}

void ibv_ack_async_event(ibv_async_event* event) {
  const std::lock_guard lock(world().mutex);
  unsigned* const count = unacknowledgedOf(*event);
  if (count == nullptr) return;
  if (*count == 0) {
    violation("ibv_ack_async_event: more events are acknowledged than were taken");
    return;
  }
  --*count;
  world().acknowledged.notify_all();
}

}  // extern "C"
