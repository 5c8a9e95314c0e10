// Taking requests: what is refused when it is posted.
#include <cstring>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {
namespace {

bool known(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND ||
         opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_READ;
}

uint64_t& counterOf(ibv_wr_opcode opcode) {
  VerbsEmulationCounters& counters = world().counters;
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
      return counters.writes;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return counters.writesWithImm;
    case IBV_WR_RDMA_READ:
      return counters.reads;
    case IBV_WR_SEND_WITH_IMM:
      return counters.sendsWithImm;
    default:
      return counters.sends;
  }
}

int takeSend(QueuePair& pair, const ibv_send_wr& wr) {
  const ibv_qp_cap& cap = pair.init.cap;
  if (!known(wr.opcode) || wr.num_sge < 0) return EINVAL;
  if (static_cast<uint32_t>(wr.num_sge) > cap.max_send_sge || pair.sendPlaces >= cap.max_send_wr) return ENOMEM;
  SendRequest request;
  request.wr = wr;
  request.wr.next = nullptr;
  request.wr.sg_list = nullptr;
  request.signaled = pair.init.sq_sig_all != 0 || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  request.pieces.assign(wr.sg_list, wr.sg_list + wr.num_sge);
  for (const ibv_sge& each : request.pieces) request.length += each.length;
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    if (wr.opcode == IBV_WR_RDMA_READ) return EINVAL;
    if (request.length > cap.max_inline_data) return ENOMEM;
    for (const ibv_sge& each : request.pieces) {
      const auto* const data = reinterpret_cast<const uint8_t*>(each.addr);
      request.inlined.insert(request.inlined.end(), data, data + each.length);
    }
    request.pieces.clear();
  }
  pair.sends.push_back(std::move(request));
  ++pair.sendPlaces;
  ++counterOf(wr.opcode);
  return 0;
}

int takeReceive(ReceiveQueue& queue, const ibv_recv_wr& wr) {
  if (wr.num_sge < 0) return EINVAL;
  if (static_cast<uint32_t>(wr.num_sge) > queue.maxPieces || queue.taken >= queue.maxRequests) return ENOMEM;
  queue.requests.push_back({wr.wr_id, {wr.sg_list, wr.sg_list + wr.num_sge}});
  ++queue.taken;
  ++world().counters.receives;
  return 0;
}

/// Takes requests one after the other, up to the first that is refused, which `*bad` is then.
template <class Request, class Take>
int takeAll(Request* requests, Request** bad, uint64_t& doorbells, const Take& take) {
  int error = 0, count = 0;
  for (; requests != nullptr; requests = requests->next, ++count) {
    error = take(*requests);
    if (error == 0) continue;
    *bad = requests;
    break;
  }
  doorbells += count > 0;
  return error;
}

}  // namespace

int postSend(ibv_qp* handle, ibv_send_wr* requests, ibv_send_wr** bad) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  *bad = requests;
  QueuePair* const pair = living(world().queuePairs, handle, "queue pair", "ibv_post_send");
  if (pair == nullptr || world().fails("ibv_post_send", &error)) return error;
  if (pair->now.qp_state != IBV_QPS_RTS && pair->now.qp_state != IBV_QPS_ERR) return failWith(EINVAL);
  error = takeAll(requests, bad, world().counters.sendDoorbells,
                  [pair](const ibv_send_wr& wr) { return takeSend(*pair, wr); });
  if (pair->now.qp_state == IBV_QPS_ERR) flush(*pair);
  progress(nullptr);
  return error == 0 ? 0 : failWith(error);
}

int postReceive(ibv_qp* handle, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  *bad = requests;
  QueuePair* const pair = living(world().queuePairs, handle, "queue pair", "ibv_post_recv");
  if (pair == nullptr || world().fails("ibv_post_recv", &error)) return error;
  if (pair->now.qp_state == IBV_QPS_RESET || pair->shared != nullptr) return failWith(EINVAL);
  error = takeAll(requests, bad, world().counters.receiveDoorbells,
                  [pair](const ibv_recv_wr& wr) { return takeReceive(pair->ownReceives, wr); });
  if (pair->now.qp_state == IBV_QPS_ERR) flush(*pair);
  progress(nullptr);
  return error == 0 ? 0 : failWith(error);
}

int postSharedReceive(ibv_srq* handle, ibv_recv_wr* requests, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  *bad = requests;
  SharedQueue* const queue = living(world().sharedQueues, handle, "shared receive queue", "ibv_post_srq_recv");
  if (queue == nullptr || world().fails("ibv_post_srq_recv", &error)) return error;
  error = takeAll(requests, bad, world().counters.receiveDoorbells,
                  [queue](const ibv_recv_wr& wr) { return takeReceive(queue->queue, wr); });
  progress(nullptr);
  return error == 0 ? 0 : failWith(error);
}

}  // namespace eccl::verbs_emulation
