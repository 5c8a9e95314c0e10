#include "transport/verbs/queue_pair.h"

#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/net/stream.h"
#include "transport/verbs/completion_text.h"
#include "transport/verbs/locked_memory.h"
#include "transport/verbs/udp_port.h"

namespace eccl::transport::verbs {
namespace {

constexpr uint32_t kWantedInline = 256;
constexpr uint8_t kRnrTimer = 12;  // 0.64 ms: the peer always has memory for what it was promised
constexpr uint8_t kRnrForever = 7;
constexpr uint8_t kHopLimit = 255;
constexpr uint32_t kReceiveBit = 1u << 31;  // in the lower half of a request's number

std::string endText(bool ethernet, const Gid& gid, uint16_t lid, uint32_t number) {
  return (ethernet ? hostTextOf(gid) : format("lid-%u", lid)) + format(":%u", number);
}

}  // namespace

QueuePair::QueuePair(Adapter& adapter, const Port& port, const Gid& gid, const QueueNeed& need,
                     const VerbsOptions& options, System& system)
    : adapter_(adapter),
      port_(port),
      gid_(gid),
      need_(need),
      options_(options),
      text_(port.text() + ", " + textOf(gid)),
      tags_(need.sends) {
  system.random(&firstPacket_, sizeof firstPacket_);
  firstPacket_ &= 0xffffff;  // such numbers have 24 bits
}

Result<std::unique_ptr<QueuePair>> QueuePair::make(Adapter& adapter, const Port& port, const Gid& gid,
                                                   const QueueNeed& need, const VerbsOptions& options,
                                                   System& system) {
  std::unique_ptr<QueuePair> pair(new QueuePair(adapter, port, gid, need, options, system));
  ECCL_TRY(pair->create());
  return pair;
}

QueuePair::~QueuePair() {
  adapter_.leave(this);
  queue_.reset();
  if (joined_) adapter_.completions().leave(completionNumber_);
}

Status QueuePair::create() {
  const size_t bytes = size_t{need_.receives} * need_.receiveBytes + size_t{need_.sends} * need_.headerBytes;
  ECCL_ASSIGN(memory_, mapPrivate(bytes));
  ECCL_ASSIGN(framesMemory_, registerWith(adapter_.domain(), frames(), bytes, IBV_ACCESS_LOCAL_WRITE));
  ECCL_ASSIGN(ibv_cq * completions,
              adapter_.completions().join(need_.sends + need_.receives, this, &completionNumber_));
  joined_ = true;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {need_.sends, need_.receives, 2, 1, 0};
  // What is sent inline spares the device a turn to fetch it; how much can be, each device decides.
  for (uint32_t inlined = kWantedInline; queue_ == nullptr; inlined /= 2) {
    ibv_qp_init_attr asked = wanted;
    asked.cap.max_inline_data = inlined;
    queue_.reset(ibv_create_qp(adapter_.domain(), &asked));
    if (queue_ != nullptr) inlineBytes_ = asked.cap.max_inline_data;
    if (const int error = errno; queue_ == nullptr && inlined == 0)
      return Status::fromErrno(error, "%s gives no queue pair for %u sends and %u receives%s",
                               port_.device.c_str(), need_.sends, need_.receives,
                               limitOnLockedMemory(error).c_str());
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = options_.pkeyIndex;
  attributes.port_num = port_.number;
  attributes.qp_access_flags = need_.writable ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  if (const int error = ibv_modify_qp(queue_.get(), &attributes,
                                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
      error != 0)
    return Status::fromErrno(error, "%s takes no queue pair with PKey number %u (ECCL_IB_PKEY)",
                             port_.text().c_str(), options_.pkeyIndex);
  return {};
}

QueueAddress QueuePair::address() const {
  QueueAddress address{};
  address.number = queue_->qp_num;
  address.sequence = firstPacket_;
  std::memcpy(address.gid, gid_.raw.raw, sizeof address.gid);
  address.lid = port_.lid;
  address.gidIndex = static_cast<uint8_t>(gid_.index);
  address.gidKind = static_cast<uint8_t>(gid_.kind);
  address.mtu = static_cast<uint8_t>(port_.mtu);
  address.ethernet = port_.ethernet;
  return address;
}

void QueuePair::goFrom(const Gid& gid) {
  gid_ = gid;
  text_ = port_.text() + ", " + textOf(gid);
}

Status QueuePair::connect(const QueueAddress& peer) {
  peerGid_ = gidOf(peer.gid, peer.gidIndex, peer.gidKind);
  peerText_ = port_.ethernet ? textOf(peerGid_) : format("LID %u", peer.lid);
  local_ = endText(port_.ethernet, gid_, port_.lid, queue_->qp_num);
  remote_ = endText(port_.ethernet, peerGid_, peer.lid, peer.number);
  if ((peer.ethernet != 0) != port_.ethernet)
    return Status::error(Code::remote, "%s is %s, and the peer's port is not", port_.text().c_str(),
                         port_.ethernet ? "Ethernet" : "InfiniBand");
  constexpr size_t kPrefix = 8;  // of a subnet
  if (!port_.ethernet && options_.gidIndex < 0 && std::memcmp(peer.gid, gid_.raw.raw, kPrefix) != 0)
    return Status::error(Code::remote, "%s is in another InfiniBand subnet than the peer's port (ECCL_IB_HCA)",
                         port_.text().c_str());
  // Before the peer can send.
  for (uint32_t i = 0; i < need_.receives; ++i) {
    if (!postReceive(i)) return Status::fromErrno(errno, "%s takes no receive", port_.text().c_str());
  }
  ECCL_TRY(toReadyToReceive(peer));
  ECCL_TRY(toReadyToSend());
  return adapter_.join(this);
}

void QueuePair::start(QueueUser* user) {
  user_ = user;
  for (const ibv_wc& each : std::exchange(early_, {})) take(each);
  if (failed_) user_->onFailure(failure_);
}

// RoCE v1, and what is link-local, no router passes on.
std::optional<DeviceFlow> QueuePair::flow() const {
  char interface[IF_NAMESIZE];
  if (!port_.ethernet || gid_.kind != GidKind::roce2 || gid_.isLinkLocal() || gid_.interface == 0 ||
      !changesUdpPort(adapter_.context()) || if_indextoname(gid_.interface, interface) == nullptr)
    return std::nullopt;
  return DeviceFlow{interface, addressOf(gid_), addressOf(peerGid_)};
}

Status QueuePair::goFromPort(uint16_t port) {
  if (stopped_) return Status::error(Code::system, "%s has stopped", text_.c_str());
  return changeUdpPort(queue_.get(), port);
}

Status QueuePair::toReadyToReceive(const QueueAddress& peer) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu =
      std::min(port_.mtu, static_cast<ibv_mtu>(std::clamp<int>(peer.mtu, IBV_MTU_256, IBV_MTU_4096)));
  attributes.dest_qp_num = peer.number & 0xffffff;
  attributes.rq_psn = peer.sequence & 0xffffff;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kRnrTimer;
  attributes.ah_attr.sl = options_.serviceLevel;
  attributes.ah_attr.port_num = port_.number;
  attributes.ah_attr.dlid = peer.lid;
  if (port_.ethernet || port_.needsGlobal || options_.gidIndex >= 0) {
    attributes.ah_attr.is_global = 1;
    std::memcpy(attributes.ah_attr.grh.dgid.raw, peer.gid, sizeof peer.gid);
    attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_.index);
    attributes.ah_attr.grh.hop_limit = kHopLimit;
    attributes.ah_attr.grh.traffic_class = options_.trafficClass;
  }
  const int error = ibv_modify_qp(queue_.get(), &attributes,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error == 0) return {};
  return Status::fromErrno(error, "%s does not reach the peer's %s (ECCL_IB_HCA, ECCL_IB_GID_INDEX)",
                           text_.c_str(), peerText_.c_str());
}

Status QueuePair::toReadyToSend() {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = options_.timeout;
  attributes.retry_cnt = options_.retries;
  attributes.rnr_retry = kRnrForever;
  attributes.sq_psn = firstPacket_;
  attributes.max_rd_atomic = 1;
  const int error = ibv_modify_qp(queue_.get(), &attributes,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (error == 0) return {};
  return Status::fromErrno(error, "%s does not become ready to send (ECCL_IB_TIMEOUT, ECCL_IB_RETRY_CNT)",
                           text_.c_str());
}

bool QueuePair::postReceive(uint32_t index) {
  ibv_sge part{reinterpret_cast<uintptr_t>(frames()) + size_t{index} * need_.receiveBytes, need_.receiveBytes,
               framesMemory_->lkey};
  ibv_recv_wr request{};
  request.wr_id = uint64_t{completionNumber_} << 32 | kReceiveBit | index;
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  errno = ibv_post_recv(queue_.get(), &request, &refused);
  return errno == 0;
}

uint32_t QueuePair::room() const {
  if (stopped_) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(need_.sends - (added_ - completed_), kBatch - batch_));
}

ibv_send_wr& QueuePair::add(ibv_wr_opcode what) {
  ibv_send_wr& request = requests_[batch_];
  request = {};
  request.wr_id = uint64_t{completionNumber_} << 32 | static_cast<uint32_t>(added_ % need_.sends);
  request.opcode = what;
  request.sg_list = parts_[batch_];
  tags_[added_ % need_.sends] = 0;
  ++batch_;
  ++added_;
  return request;
}

void QueuePair::write(const std::byte* from, uint32_t key, uint32_t length, uint64_t to, uint32_t remoteKey) {
  ibv_send_wr& request = add(IBV_WR_RDMA_WRITE);
  request.sg_list[0] = {reinterpret_cast<uintptr_t>(from), length, key};
  request.num_sge = 1;
  request.wr.rdma.remote_addr = to;
  request.wr.rdma.rkey = remoteKey;
}

void QueuePair::send(const void* header, uint32_t headerBytes, const std::byte* data, uint32_t key,
                     uint32_t length, uint64_t tag) {
  ibv_send_wr& request = add(IBV_WR_SEND);
  const uint64_t number = (added_ - 1) % need_.sends;
  tags_[number] = tag;
  std::byte* const copy = frames() + size_t{need_.receives} * need_.receiveBytes + number * need_.headerBytes;
  std::memcpy(copy, header, headerBytes);
  request.sg_list[0] = {reinterpret_cast<uintptr_t>(copy), headerBytes, framesMemory_->lkey};
  request.sg_list[1] = {reinterpret_cast<uintptr_t>(data), length, key};
  request.num_sge = length > 0 ? 2 : 1;
  if (headerBytes + length <= inlineBytes_) request.send_flags |= IBV_SEND_INLINE;
}

// Of requests without a completion the queue never is to be full.
void QueuePair::submit(bool completion) {
  if (batch_ == 0) return;
  const uint32_t count = std::exchange(batch_, 0);
  if (stopped_) return;
  for (uint32_t i = 0; i + 1 < count; ++i) requests_[i].next = &requests_[i + 1];
  if (completion || added_ - signalled_ >= need_.sends / 4) {
    requests_[count - 1].send_flags |= IBV_SEND_SIGNALED;
    signalled_ = added_;
  }
  ibv_send_wr* refused = nullptr;
  if (const int error = ibv_post_send(queue_.get(), requests_, &refused); error != 0)
    fail(format("%s takes no request: %s", text_.c_str(), describeError(error).c_str()));
}

void QueuePair::onCompletion(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) {
    if (!stopped_) adapter_.lookAtEvents();
    if (!stopped_)
      fail(completionText(completion.status, completion.vendor_err, text_, "the peer's " + peerText_));
    return;
  }
  if (user_ == nullptr)
    early_.push_back(completion);
  else
    take(completion);
}

void QueuePair::take(const ibv_wc& completion) {
  if (stopped_) return;
  const auto number = static_cast<uint32_t>(completion.wr_id);
  if ((number & kReceiveBit) == 0) {
    // The requests before it are done, too: up to the first with this place in the queue.
    const uint64_t done = completed_ + (number + need_.sends - completed_ % need_.sends) % need_.sends + 1;
    completed_ = done;
    return user_->onSent(tags_[number]);
  }
  const uint32_t index = number & ~kReceiveBit;
  user_->onFrame(frames() + size_t{index} * need_.receiveBytes, completion.byte_len);
  if (!stopped_ && !postReceive(index))
    fail(format("%s takes no receive: %s", text_.c_str(), describeError(errno).c_str()));
}

void QueuePair::stop() {
  if (std::exchange(stopped_, true)) return;
  batch_ = 0;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // Whatever the reason: without its queue pair nothing is written either.
  if (ibv_modify_qp(queue_.get(), &attributes, IBV_QP_STATE) != 0) queue_.reset();
}

void QueuePair::fail(const std::string& why) {
  stop();
  if (std::exchange(failed_, true)) return;
  if (user_ != nullptr) return user_->onFailure(why);
  failure_ = why;
}

void QueuePair::closeAfterFork() {
  stopped_ = true;
  queue_.release();
  framesMemory_.release();
  joined_ = false;
}

}  // namespace eccl::transport::verbs
