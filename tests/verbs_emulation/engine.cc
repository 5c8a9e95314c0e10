#include "verbs_emulation/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace eccl::verbs_emulation {
namespace {

constexpr uint32_t kSequenceMask = 0xffffff;
constexpr uint32_t kMaxMessage = 1u << 30;
constexpr uint8_t kRnrForever = 7;
constexpr int kJunk = 0xee;  // what a failed completion has in all fields that mean nothing

ibv_wc_opcode completionOf(ibv_wr_opcode opcode) {
  if (opcode == IBV_WR_RDMA_READ) return IBV_WC_RDMA_READ;
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

Completion failed(QueuePair& pair, uint64_t id, ibv_wc_status status) {
  Completion completion;
  std::memset(static_cast<void*>(&completion.wc), kJunk, sizeof completion.wc);
  completion.wc.opcode = static_cast<ibv_wc_opcode>(kJunk);  // within the values that the type can hold
  completion.wc.wr_id = id;
  completion.wc.status = status;
  completion.wc.qp_num = pair.qp_num;
  completion.pair = &pair;
  return completion;
}

/// Takes the first send off the queue; what completes it gives its place back, and those of silent ones before.
void completeSend(QueuePair& pair, Completion completion) {
  pair.sends.pop_front();
  completion.sendPlaces = std::exchange(pair.silent, 0) + 1;
  complete(*pair.sendTo, std::move(completion));
}

void failSend(QueuePair& pair, ibv_wc_status status) {
  completeSend(pair, failed(pair, pair.sends.front().wr.wr_id, status));
  toError(pair);
}

/// Takes the first receive off the queue.
void completeReceive(QueuePair& pair, Completion completion) {
  completion.place = &pair.receives();
  pair.receives().requests.pop_front();
  complete(*pair.receiveTo, std::move(completion));
}

void failReceive(QueuePair& pair, ibv_wc_status status) {
  completeReceive(pair, failed(pair, pair.receives().requests.front().id, status));
  toError(pair);
}

/// The responder refuses: its queue pair fails, and so does the requester's.
void refuse(QueuePair& sender, QueuePair& peer, ibv_wc_status status, ibv_event_type event) {
  raiseOf(peer, event);
  if (&peer != &sender) toError(peer);
  failSend(sender, status);
}

void succeedSend(QueuePair& pair) {
  const SendRequest& request = pair.sends.front();
  if (!request.signaled) {
    pair.sends.pop_front();
    ++pair.silent;
    return;
  }
  Completion completion;
  completion.wc.wr_id = request.wr.wr_id;
  completion.wc.opcode = completionOf(request.wr.opcode);
  completion.wc.qp_num = pair.qp_num;
  completion.wc.byte_len = request.wr.opcode == IBV_WR_RDMA_READ ? static_cast<uint32_t>(request.length) : 0;
  completion.pair = &pair;
  completion.landings = std::exchange(pair.readings, {});
  completeSend(pair, std::move(completion));
}

void succeedReceive(QueuePair& pair, const SendRequest& request) {
  const bool immediate =
      request.wr.opcode == IBV_WR_SEND_WITH_IMM || request.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  Completion completion;
  completion.wc.wr_id = pair.receives().requests.front().id;
  completion.wc.opcode =
      request.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  completion.wc.qp_num = pair.qp_num;
  completion.wc.byte_len = static_cast<uint32_t>(request.length);
  completion.wc.wc_flags = immediate ? IBV_WC_WITH_IMM : 0;
  completion.wc.imm_data = immediate ? request.wr.imm_data : 0;
  completion.solicited = (request.wr.send_flags & IBV_SEND_SOLICITED) != 0;
  completion.pair = &pair;
  completion.landings = std::exchange(pair.arrivals, {});
  completeReceive(pair, std::move(completion));
}

uint64_t lengthOf(const std::vector<ibv_sge>& pieces) {
  uint64_t length = 0;
  for (const ibv_sge& each : pieces) length += each.length;
  return length;
}

void carry(std::vector<Landing>& waiting, const std::vector<Span>& from, const std::vector<Span>& to) {
  if (world().relaxed)
    waiting.push_back(later(from, to));
  else
    transfer(from, to, world().order);
}

/// One request on its way.
class Attempt {
 public:
  Attempt(QueuePair& sender, const CompletionQueue* polled)
      : sender_(sender),
        request_(sender.sends.front()),
        inVain_(sender.sendTo == polled || sender.sendTo->armed != CompletionQueue::Armed::no) {}
  /// Returns whether the request is off the queue.
  bool make();

 private:
  bool isRead() const { return request_.wr.opcode == IBV_WR_RDMA_READ; }
  bool isWrite() const {
    return request_.wr.opcode == IBV_WR_RDMA_WRITE || request_.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  }
  bool needsReceive() const { return !isRead() && request_.wr.opcode != IBV_WR_RDMA_WRITE; }
  /// Whether waiting has come to an end, with `status`.
  bool waited(ibv_wc_status status) {
    if (inVain_) failSend(sender_, status);
    return inVain_;
  }
  bool local();
  bool remote(QueuePair& peer);
  bool receive(QueuePair& peer);
  void succeed(QueuePair& peer);

  QueuePair& sender_;
  SendRequest& request_;
  const bool inVain_;
  std::vector<Span> here_, there_;
};

bool Attempt::local() {
  if (!request_.inlined.empty()) {
    here_ = {{request_.inlined.data(), request_.inlined.size()}};
    return true;
  }
  ibv_wc_status status = IBV_WC_SUCCESS;
  if (request_.length > kMaxMessage) status = IBV_WC_LOC_LEN_ERR;
  if (isRead() && sender_.now.max_rd_atomic == 0) status = IBV_WC_LOC_QP_OP_ERR;
  if (!locate(*sender_.owner, request_.pieces, isRead() ? IBV_ACCESS_LOCAL_WRITE : 0, &here_))
    status = IBV_WC_LOC_PROT_ERR;
  if (status != IBV_WC_SUCCESS) failSend(sender_, status);
  return status == IBV_WC_SUCCESS;
}

bool Attempt::remote(QueuePair& peer) {
  if (request_.length > 128u << peer.now.path_mtu && sender_.now.path_mtu > peer.now.path_mtu) {
    refuse(sender_, peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    return false;
  }
  if (isRead() && peer.now.max_dest_rd_atomic == 0) {
    refuse(sender_, peer, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    return false;
  }
  if (!isRead() && !isWrite()) return true;
  const unsigned access = isRead() ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
  const bool allowed = (peer.now.qp_access_flags & access) != 0;
  if (allowed && request_.length == 0) return true;  // no key is looked at
  if (allowed && locateRemote(*peer.owner, request_.wr.wr.rdma.remote_addr, request_.length,
                              request_.wr.wr.rdma.rkey, access, &there_))
    return true;
  refuse(sender_, peer, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  return false;
}

bool Attempt::receive(QueuePair& peer) {
  const ReceiveRequest& posted = peer.receives().requests.front();
  ibv_wc_status status = IBV_WC_SUCCESS, answer = IBV_WC_REM_OP_ERR;
  if (isWrite()) {
    // the receive is used up, its memory is not
  } else if (lengthOf(posted.pieces) < request_.length) {
    status = IBV_WC_LOC_LEN_ERR;
    answer = IBV_WC_REM_INV_REQ_ERR;
  } else if (!locate(*peer.owner, posted.pieces, IBV_ACCESS_LOCAL_WRITE, &there_)) {
    status = IBV_WC_LOC_PROT_ERR;
  }
  if (status == IBV_WC_SUCCESS) status = world().statusOfNext(peer.qp_num, VERBS_EMULATION_RECEIVES);
  if (status == IBV_WC_SUCCESS) return true;
  failReceive(peer, status);
  if (&peer != &sender_) failSend(sender_, answer);
  return false;
}

void Attempt::succeed(QueuePair& peer) {
  if ((request_.wr.send_flags & IBV_SEND_FENCE) != 0) landOf(sender_);
  if (isRead()) {
    landOf(peer);  // a read sees what was written before it
    carry(sender_.readings, there_, here_);
  } else {
    carry(peer.arrivals, here_, there_);
  }
  world().counters.movedBytes += request_.length;
  sender_.nextSend = (sender_.nextSend + 1) & kSequenceMask;
  peer.nextReceive = (peer.nextReceive + 1) & kSequenceMask;
  if (peer.now.qp_state == IBV_QPS_RTR && !std::exchange(peer.heardOf, true)) raiseOf(peer, IBV_EVENT_COMM_EST);
  if (needsReceive()) succeedReceive(peer, request_);
  // A completion queue that overran may have failed the sender.
  if (sender_.now.qp_state == IBV_QPS_RTS) succeedSend(sender_);
}

bool Attempt::make() {
  if (!local()) return true;
  QueuePair* const peer = peerOf(sender_);
  if (peer != nullptr && peer->now.qp_state == IBV_QPS_INIT) return false;  // sent again until it is ready
  if (peer == nullptr || !answers(*peer, sender_)) return waited(IBV_WC_RETRY_EXC_ERR);
  if (!remote(*peer)) return true;
  if (needsReceive() && peer->receives().requests.empty())
    return sender_.now.rnr_retry == kRnrForever ? false : waited(IBV_WC_RNR_RETRY_EXC_ERR);
  if (request_.signaled) {
    const ibv_wc_status status = world().statusOfNext(sender_.qp_num, VERBS_EMULATION_SENDS);
    if (status != IBV_WC_SUCCESS) {
      failSend(sender_, status);
      return true;
    }
  }
  if (needsReceive() && !receive(*peer)) return true;
  succeed(*peer);
  return true;
}

bool advance(QueuePair& pair, const CompletionQueue* polled) {
  bool any = false;
  while (pair.now.qp_state == IBV_QPS_RTS && !pair.held && !pair.sends.empty() && Attempt(pair, polled).make())
    any = true;
  return any;
}

}  // namespace

void progress(const CompletionQueue* polled) {
  if (world().held) return;
  bool any = true;
  while (any) {  // what one queue pair does may be what another waits for
    any = false;
    for (const auto& [number, pair] : world().pairsByNumber) {
      if (!pair->sends.empty()) any |= advance(*pair, polled);
    }
  }
}

void toError(QueuePair& pair) {
  if (pair.now.qp_state == IBV_QPS_ERR || pair.now.qp_state == IBV_QPS_RESET) return;
  pair.now.qp_state = IBV_QPS_ERR;
  landOf(pair);
  flush(pair);
  if (pair.shared != nullptr) raiseOf(pair, IBV_EVENT_QP_LAST_WQE_REACHED);
}

void flush(QueuePair& pair) {
  while (!pair.sends.empty())
    completeSend(pair, failed(pair, pair.sends.front().wr.wr_id, IBV_WC_WR_FLUSH_ERR));
  while (pair.shared == nullptr && !pair.ownReceives.requests.empty())
    completeReceive(pair, failed(pair, pair.ownReceives.requests.front().id, IBV_WC_WR_FLUSH_ERR));
}

void forget(QueuePair& pair) {
  landOf(pair);
  for (CompletionQueue* queue : {pair.sendTo, pair.receiveTo}) {
    auto& entries = queue->entries;
    const auto ofPair = [&pair](const Completion& each) { return each.pair == &pair; };
    for (const Completion& each : entries)
      if (ofPair(each) && each.place != nullptr) --each.place->taken;
    entries.erase(std::remove_if(entries.begin(), entries.end(), ofPair), entries.end());
  }
  pair.sends.clear();
  pair.ownReceives.requests.clear();
  pair.sendPlaces = pair.silent = pair.ownReceives.taken = 0;
}

void complete(CompletionQueue& queue, Completion completion) {
  if (queue.entries.size() >= static_cast<size_t>(queue.cqe)) {
    ibv_async_event event{};
    event.element.cq = &queue;
    event.event_type = IBV_EVENT_CQ_ERR;
    raise(*queue.owner, event);
    violation("a completion queue of %d entries overruns, by queue pair %u", queue.cqe, completion.wc.qp_num);
    return;
  }
  const bool told = completion.solicited || completion.wc.status != IBV_WC_SUCCESS;
  queue.entries.push_back(std::move(completion));
  if (queue.armed == CompletionQueue::Armed::no) return;
  if (queue.armed == CompletionQueue::Armed::solicited && !told) return;
  queue.armed = CompletionQueue::Armed::no;
  if (queue.events == nullptr) return;
  queue.events->events.push(&queue);
  ++world().counters.channelEvents;
}

}  // namespace eccl::verbs_emulation
