// The life of shared receive queues.
#include "verbs_emulation/engine.h"

using namespace eccl::verbs_emulation;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* handle, ibv_srq_init_attr* init) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  Domain* const domain = living(world().domains, handle, "protection domain", "ibv_create_srq");
  if (domain == nullptr || world().fails("ibv_create_srq", &error)) return nullptr;
  Device& device = domain->owner->device();
  if (device.fatal) error = EIO;
  if (init->attr.max_wr > static_cast<uint32_t>(device.limits.maxQpWr) ||
      init->attr.max_sge > static_cast<uint32_t>(device.limits.maxSge))
    error = EINVAL;
  if (error != 0) {
    failWith(error);
    return nullptr;
  }
  auto queue = std::make_unique<SharedQueue>();
  queue->context = domain->context;
  queue->srq_context = init->srq_context;
  queue->pd = handle;
  queue->handle = world().nextKey++;
  queue->owner = domain;
  queue->queue.maxRequests = init->attr.max_wr;
  queue->queue.maxPieces = init->attr.max_sge;
  ++domain->children;
  SharedQueue* const result = queue.get();
  world().sharedQueues[static_cast<ibv_srq*>(result)] = std::move(queue);
  return result;
}

int ibv_query_srq(ibv_srq* handle, ibv_srq_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  SharedQueue* const queue = living(world().sharedQueues, handle, "shared receive queue", "ibv_query_srq");
  if (queue == nullptr || world().fails("ibv_query_srq", &error)) return error;
  *attributes = {queue->queue.maxRequests, queue->queue.maxPieces, 0};
  return 0;
}

int ibv_destroy_srq(ibv_srq* handle) {
  std::unique_lock lock(world().mutex);
  int error = EINVAL;
  SharedQueue* const queue = living(world().sharedQueues, handle, "shared receive queue", "ibv_destroy_srq");
  if (queue == nullptr || world().fails("ibv_destroy_srq", &error)) return error;
  if (queue->users > 0) return failWith(EBUSY);
  awaitAcknowledged(lock, queue->asyncUnacknowledged, "a shared receive queue");
  --queue->owner->children;
  world().sharedQueues.erase(handle);
  return 0;
}

}  // extern "C"
