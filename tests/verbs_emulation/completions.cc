// Completion channels and completion queues.
#include <algorithm>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {

int pollCompletions(ibv_cq* handle, int room, ibv_wc* completions) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  int error = 0;
  CompletionQueue* const queue = living(w.completionQueues, handle, "completion queue", "ibv_poll_cq");
  if (queue == nullptr || room < 0 || w.fails("ibv_poll_cq", &error)) return -1;
  progress(queue);
  ++w.counters.polls;
  const int limit = w.pollLimit > 0 ? std::min(room, w.pollLimit) : room;
  int count = 0;
  for (; count < limit && !queue->entries.empty(); ++count) {
    Completion& each = queue->entries.front();
    land(each.landings, w.order);
    each.pair->sendPlaces -= each.sendPlaces;
    if (each.place != nullptr) --each.place->taken;
    completions[count] = each.wc;
    w.counters.errorCompletions += each.wc.status != IBV_WC_SUCCESS;
    queue->entries.pop_front();
  }
  w.counters.completions += static_cast<uint64_t>(count);
  w.counters.emptyPolls += count == 0;
  return count;
}

int requestNotification(ibv_cq* handle, int solicitedOnly) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  CompletionQueue* const queue =
      living(world().completionQueues, handle, "completion queue", "ibv_req_notify_cq");
  if (queue == nullptr || world().fails("ibv_req_notify_cq", &error)) return error;
  ++world().counters.armings;
  // Asking for less does not take back what was asked for.
  if (solicitedOnly == 0)
    queue->armed = CompletionQueue::Armed::any;
  else if (queue->armed == CompletionQueue::Armed::no)
    queue->armed = CompletionQueue::Armed::solicited;
  return 0;
}

}  // namespace eccl::verbs_emulation

using namespace eccl::verbs_emulation;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* handle) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  Context* const context = living(world().contexts, handle, "context", "ibv_create_comp_channel");
  if (context == nullptr || world().fails("ibv_create_comp_channel", &error)) return nullptr;
  auto channel = std::make_unique<Channel>();
  channel->context = handle;
  channel->owner = context;
  channel->fd = channel->events.descriptor();
  ++context->children;
  Channel* const result = channel.get();
  world().channels[static_cast<ibv_comp_channel*>(result)] = std::move(channel);
  return result;
}

int ibv_destroy_comp_channel(ibv_comp_channel* handle) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Channel* const channel = living(world().channels, handle, "completion channel", "ibv_destroy_comp_channel");
  if (channel == nullptr || world().fails("ibv_destroy_comp_channel", &error)) return error;
  if (channel->refcnt > 0) return failWith(EBUSY);
  --channel->owner->children;
  world().channels.erase(handle);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* handle, int entries, void* user, ibv_comp_channel* channelHandle,
                      int vector) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  Context* const context = living(world().contexts, handle, "context", "ibv_create_cq");
  if (context == nullptr || world().fails("ibv_create_cq", &error)) return nullptr;
  Channel* channel = nullptr;
  if (channelHandle != nullptr) {
    channel = living(world().channels, channelHandle, "completion channel", "ibv_create_cq");
    if (channel == nullptr) return nullptr;
  }
  if (context->device().fatal) error = EIO;
  if (entries < 1 || entries > context->device().limits.maxCqe || vector < 0 ||
      vector >= handle->num_comp_vectors || (channel != nullptr && channel->owner != context))
    error = EINVAL;
  if (error != 0) {
    failWith(error);
    return nullptr;
  }
  auto queue = std::make_unique<CompletionQueue>();
  queue->context = handle;
  queue->channel = channelHandle;
  queue->cq_context = user;
  queue->cqe = entries;
  queue->handle = world().nextKey++;
  queue->owner = context;
  queue->events = channel;
  ++context->children;
  if (channel != nullptr) ++channel->refcnt;
  CompletionQueue* const result = queue.get();
  world().completionQueues[static_cast<ibv_cq*>(result)] = std::move(queue);
  return result;
}

int ibv_resize_cq(ibv_cq* handle, int entries) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  CompletionQueue* const queue = living(world().completionQueues, handle, "completion queue", "ibv_resize_cq");
  if (queue == nullptr || world().fails("ibv_resize_cq", &error)) return error;
  if (entries < 1 || entries > queue->owner->device().limits.maxCqe ||
      static_cast<size_t>(entries) < queue->entries.size())
    return failWith(EINVAL);
  queue->cqe = entries;
  return 0;
}

int ibv_destroy_cq(ibv_cq* handle) {
  std::unique_lock lock(world().mutex);
  int error = EINVAL;
  CompletionQueue* const queue = living(world().completionQueues, handle, "completion queue", "ibv_destroy_cq");
  if (queue == nullptr || world().fails("ibv_destroy_cq", &error)) return error;
  if (queue->users > 0) return failWith(EBUSY);
  if (queue->events != nullptr)
    queue->events->events.drop([queue](const CompletionQueue* each) { return each == queue; });
  queue->owner->events.drop([queue](const ibv_async_event& each) {
    return each.event_type == IBV_EVENT_CQ_ERR && each.element.cq == queue;
  });
  awaitAcknowledged(lock, queue->unacknowledged, "a completion queue");
  awaitAcknowledged(lock, queue->asyncUnacknowledged, "a completion queue");
  if (queue->events != nullptr) --queue->events->refcnt;
  --queue->owner->children;
  world().completionQueues.erase(handle);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* handle, ibv_cq** queue, void** user) {
  int error = 0;
  {
    const std::lock_guard lock(world().mutex);
    if (living(world().channels, handle, "completion channel", "ibv_get_cq_event") == nullptr) return -1;
    if (world().fails("ibv_get_cq_event", &error)) return -1;
  }
  bool lost = false;
  const int result = await(world().mutex, handle->fd, [&] {
    Channel* const channel = living(world().channels, handle, "completion channel", "ibv_get_cq_event");
    CompletionQueue* of = nullptr;
    lost = channel == nullptr;
    if (lost || !channel->events.pop(&of)) return lost;
    ++of->unacknowledged;
    *queue = of;
    *user = of->cq_context;
    return true;
  });
  return lost ? -1 : result;
}

void ibv_ack_cq_events(ibv_cq* handle, unsigned count) {
  const std::lock_guard lock(world().mutex);
  CompletionQueue* const queue =
      living(world().completionQueues, handle, "completion queue", "ibv_ack_cq_events");
  if (queue == nullptr) return;
  if (count > queue->unacknowledged) {
    violation("ibv_ack_cq_events: %u events are acknowledged, and %u were taken", count, queue->unacknowledged);
    return;
  }
  queue->unacknowledged -= count;
  world().acknowledged.notify_all();
}

}  // extern "C"
