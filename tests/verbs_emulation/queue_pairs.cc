// The life of queue pairs.
#include <algorithm>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"
#include "verbs_emulation/transitions.h"

using namespace eccl::verbs_emulation;

namespace {

/// 0, or the error that the device answers with.
int refusal(Domain& domain, const ibv_qp_init_attr& init) {
  const Device& device = domain.owner->device();
  const Limits& limits = device.limits;
  const ibv_qp_cap& cap = init.cap;
  if (device.fatal) return EIO;
  if (init.qp_type != IBV_QPT_RC) return EOPNOTSUPP;
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return EINVAL;
  if (init.send_cq->context != domain.context || init.recv_cq->context != domain.context) return EINVAL;
  const auto above = [](uint32_t wanted, int limit) { return wanted > static_cast<uint32_t>(limit); };
  if (above(cap.max_send_wr, limits.maxQpWr) || above(cap.max_recv_wr, limits.maxQpWr) ||
      above(cap.max_send_sge, limits.maxSge) || above(cap.max_recv_sge, limits.maxSge) ||
      above(cap.max_inline_data, limits.maxInline))
    return EINVAL;
  int count = 0;
  for (const auto& [number, pair] : world().pairsByNumber) count += &pair->device() == &device;
  return count >= limits.maxQp ? ENOMEM : 0;
}

void dropEvents(Context& context, const ibv_qp* pair) {
  context.events.drop([pair](const ibv_async_event& event) {
    const bool ofPair = event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
                        event.event_type == IBV_EVENT_QP_ACCESS_ERR || event.event_type == IBV_EVENT_COMM_EST ||
                        event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED;
    return ofPair && event.element.qp == pair;
  });
}

}  // namespace

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* handle, ibv_qp_init_attr* init) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const char* const name = "ibv_create_qp";
  int error = 0;
  Domain* const domain = living(w.domains, handle, "protection domain", name);
  if (domain == nullptr || w.fails(name, &error)) return nullptr;
  error = refusal(*domain, *init);
  if (error != 0) {
    failWith(error);
    return nullptr;
  }
  CompletionQueue* const sendTo = living(w.completionQueues, init->send_cq, "completion queue", name);
  CompletionQueue* const receiveTo = living(w.completionQueues, init->recv_cq, "completion queue", name);
  SharedQueue* shared = nullptr;
  if (init->srq != nullptr) {
    shared = living(w.sharedQueues, init->srq, "shared receive queue", name);
    if (shared == nullptr) return nullptr;
  }
  if (sendTo == nullptr || receiveTo == nullptr) return nullptr;
  if (shared != nullptr) init->cap.max_recv_wr = init->cap.max_recv_sge = 0;
  auto pair = std::make_unique<QueuePair>();
  pair->context = domain->context;
  pair->qp_context = init->qp_context;
  pair->pd = handle;
  pair->send_cq = init->send_cq;
  pair->recv_cq = init->recv_cq;
  pair->srq = init->srq;
  pair->qp_num = pair->handle = w.nextNumber++;
  pair->qp_type = init->qp_type;
  pair->owner = domain;
  pair->sendTo = sendTo;
  pair->receiveTo = receiveTo;
  pair->shared = shared;
  pair->init = *init;
  pair->ownReceives.maxRequests = init->cap.max_recv_wr;
  pair->ownReceives.maxPieces = init->cap.max_recv_sge;
  ++sendTo->users;
  ++receiveTo->users;
  ++domain->children;
  if (shared != nullptr) ++shared->users;
  QueuePair* const result = pair.get();
  w.pairsByNumber[result->qp_num] = result;
  w.queuePairs[static_cast<ibv_qp*>(result)] = std::move(pair);
  return result;
}

int ibv_destroy_qp(ibv_qp* handle) {
  World& w = world();
  std::unique_lock lock(w.mutex);
  int error = EINVAL;
  QueuePair* const pair = living(w.queuePairs, handle, "queue pair", "ibv_destroy_qp");
  if (pair == nullptr || w.fails("ibv_destroy_qp", &error)) return error;
  forget(*pair);
  pair->now.qp_state = IBV_QPS_RESET;
  w.pairsByNumber.erase(pair->qp_num);
  dropEvents(*pair->owner->owner, handle);
  awaitAcknowledged(lock, pair->asyncUnacknowledged, "a queue pair");
  --pair->sendTo->users;
  --pair->receiveTo->users;
  --pair->owner->children;
  if (pair->shared != nullptr) --pair->shared->users;
  w.queuePairs.erase(handle);
  progress(nullptr);  // who waited for it waits in vain
  return 0;
}

int ibv_modify_qp(ibv_qp* handle, ibv_qp_attr* wanted, int mask) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  int error = EINVAL;
  QueuePair* const pair = living(w.queuePairs, handle, "queue pair", "ibv_modify_qp");
  if (pair == nullptr || w.fails("ibv_modify_qp", &error)) return error;
  const ibv_qp_state next = (mask & IBV_QP_STATE) != 0 ? wanted->qp_state : pair->now.qp_state;
  const bool backward = next == IBV_QPS_ERR || next == IBV_QPS_RESET;
  if (pair->device().fatal && !backward) return failWith(EIO);
  error = checkTransition(*pair, *wanted, mask);
  if (error != 0) return failWith(error);
  if (next == IBV_QPS_ERR) {
    if (pair->now.qp_state == IBV_QPS_RESET) return failWith(EINVAL);
    toError(*pair);
  } else if (next == IBV_QPS_RESET) {
    forget(*pair);
    pair->now = {};
    pair->heardOf = false;
  } else {
    apply(*pair, *wanted, mask);
    pair->now.qp_state = next;
  }
  pair->state = next;
  progress(nullptr);
  return 0;
}

int ibv_query_qp(ibv_qp* handle, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  QueuePair* const pair = living(world().queuePairs, handle, "queue pair", "ibv_query_qp");
  if (pair == nullptr || world().fails("ibv_query_qp", &error)) return error;
  *attributes = pair->now;
  attributes->cur_qp_state = pair->now.qp_state;
  attributes->sq_psn = pair->nextSend;
  attributes->rq_psn = pair->nextReceive;
  attributes->cap = pair->init.cap;
  *init = pair->init;
  handle->state = pair->now.qp_state;
  return 0;
}

int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) {
  return 0;
}
int ibv_set_ece(ibv_qp*, ibv_ece*) {
  return failWith(EOPNOTSUPP);
}
int ibv_query_ece(ibv_qp*, ibv_ece*) {
  return failWith(EOPNOTSUPP);
}
ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp*) {
  return nullptr;
}

}  // extern "C"
