// What the emulation's own tests share: a device in use, and two queue pairs that are connected.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verbs_emulation/verbs_emulation.h"

namespace eccl::verbs_emulation {

/// Attributes for the three transitions, and the masks that they need.
inline constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kToReceive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kToSend = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
// As numbers: libibverbs's macro for registering mixes two enumerations, of which Clang warns.
inline constexpr int kLocal = IBV_ACCESS_LOCAL_WRITE, kRemote = IBV_ACCESS_REMOTE_WRITE;
inline constexpr int kRelaxed = IBV_ACCESS_RELAXED_ORDERING;
inline constexpr uint32_t kSequence = 77;

/// How a side is made.
struct Wish {
  int completions = 64;
  bool channel = false, signalAll = false;
  ibv_qp_cap cap{16, 16, 4, 4, 64};
  int rnrRetry = 7, qpAccess = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  int memoryAccess = kAllAccess;
  int gidIndex = 3;
  ibv_srq_init_attr* shared = nullptr;  // makes a shared receive queue
};

/// One end, with a buffer of its own.
struct Side {
  explicit Side(int device, const Wish& wish = {}) : wish(wish), buffer(4096) {
    ibv_device** const list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[device]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    if (wish.channel) channel = ibv_create_comp_channel(context);
    completions = ibv_create_cq(context, wish.completions, this, channel, 0);
    region = ibv_reg_mr(domain, buffer.data(), buffer.size(), wish.memoryAccess);
    if (wish.shared != nullptr) shared = ibv_create_srq(domain, wish.shared);
    pair = makePair();
  }
  ~Side() {
    if (pair != nullptr) { EXPECT_EQ(ibv_destroy_qp(pair), 0); }
    if (shared != nullptr) { EXPECT_EQ(ibv_destroy_srq(shared), 0); }
    if (region != nullptr) { EXPECT_EQ(ibv_dereg_mr(region), 0); }
    EXPECT_EQ(ibv_destroy_cq(completions), 0);
    if (channel != nullptr) { EXPECT_EQ(ibv_destroy_comp_channel(channel), 0); }
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_close_device(context), 0);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  ibv_qp* makePair() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = completions;
    init.srq = shared;
    init.cap = wish.cap;
    init.qp_type = IBV_QPT_RC;
    init.sq_sig_all = wish.signalAll;
    return ibv_create_qp(domain, &init);
  }

  ibv_gid gid() const {
    ibv_gid own{};
    EXPECT_EQ(ibv_query_gid(context, 1, wish.gidIndex, &own), 0);
    return own;
  }
  ibv_qp_attr attributes(ibv_qp_state state, uint32_t to = 0, const ibv_gid& at = {}) const {
    ibv_qp_attr all{};
    all.qp_state = state;
    all.port_num = all.ah_attr.port_num = 1;
    all.qp_access_flags = static_cast<unsigned>(wish.qpAccess);
    all.path_mtu = IBV_MTU_1024;
    all.dest_qp_num = to;
    all.rq_psn = all.sq_psn = kSequence;
    all.max_dest_rd_atomic = all.max_rd_atomic = 1;
    all.min_rnr_timer = 12;
    all.timeout = 14, all.retry_cnt = 7, all.rnr_retry = static_cast<uint8_t>(wish.rnrRetry);
    all.ah_attr.is_global = 1;
    all.ah_attr.grh.dgid = at;
    all.ah_attr.grh.sgid_index = static_cast<uint8_t>(wish.gidIndex);
    return all;
  }
  int modify(ibv_qp* which, ibv_qp_attr all, int mask) const { return ibv_modify_qp(which, &all, mask); }
  void connect(ibv_qp* own, uint32_t to, const ibv_gid& at) const {
    EXPECT_EQ(modify(own, attributes(IBV_QPS_INIT), kToInit), 0);
    EXPECT_EQ(modify(own, attributes(IBV_QPS_RTR, to, at), kToReceive), 0);
    EXPECT_EQ(modify(own, attributes(IBV_QPS_RTS), kToSend), 0);
  }
  int state(ibv_qp_state next) const { return modify(pair, attributes(next), IBV_QP_STATE); }

  ibv_sge piece(size_t offset, uint32_t length) const {
    return {reinterpret_cast<uint64_t>(buffer.data() + offset), length, region->lkey};
  }
  /// Posts one request that is signalled unless `flags` say otherwise. `to`: where an RDMA request goes.
  int post(ibv_wr_opcode opcode, uint64_t id, std::vector<ibv_sge> pieces, const Side* to = nullptr,
           size_t offset = 0, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    wr.opcode = opcode;
    wr.send_flags = flags;
    wr.imm_data = static_cast<uint32_t>(id);
    if (to != nullptr) {
      wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(to->buffer.data() + offset);
      wr.wr.rdma.rkey = to->region->rkey;
    }
    const int error = ibv_post_send(pair, &wr, &bad);
    if (error != 0) { EXPECT_EQ(bad, &wr); }
    return error;
  }
  int receive(uint64_t id, std::vector<ibv_sge> pieces) {
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = pieces.data();
    wr.num_sge = static_cast<int>(pieces.size());
    const int error = shared != nullptr ? ibv_post_srq_recv(shared, &wr, &bad) : ibv_post_recv(pair, &wr, &bad);
    if (error != 0) { EXPECT_EQ(bad, &wr); }
    return error;
  }
  /// All completions that there are.
  std::vector<ibv_wc> poll() const {
    std::vector<ibv_wc> all;
    ibv_wc one{};
    while (ibv_poll_cq(completions, 1, &one) == 1) all.push_back(one);
    return all;
  }
  /// As poll(), as "number:status number:status".
  std::string statuses() const {
    std::string text;
    for (const ibv_wc& each : poll())
      text += (text.empty() ? "" : " ") + std::to_string(each.wr_id) + ":" + std::to_string(each.status);
    return text;
  }
  /// All asynchronous events that there are, acknowledged.
  std::vector<ibv_event_type> events() const {
    fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
    std::vector<ibv_event_type> all;
    for (ibv_async_event event{}; ibv_get_async_event(context, &event) == 0; ibv_ack_async_event(&event))
      all.push_back(event.event_type);
    return all;
  }

  const Wish wish;
  std::vector<uint8_t> buffer;
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* completions = nullptr;
  ibv_mr* region = nullptr;
  ibv_srq* shared = nullptr;
  ibv_qp* pair = nullptr;
};

inline void connect(Side& one, Side& other) {
  one.connect(one.pair, other.pair->qp_num, other.gid());
  other.connect(other.pair, one.pair->qp_num, one.gid());
}

/// "id:status" as statuses() has it.
inline std::string of(uint64_t id, ibv_wc_status status) {
  return std::to_string(id) + ":" + std::to_string(status);
}

inline VerbsEmulationCounters counters() {
  VerbsEmulationCounters all{};
  verbsEmulationCounters(&all);
  return all;
}

/// Every test begins in the first world, and leaves nothing behind.
class Emulation : public testing::Test {
 protected:
  void SetUp() override { verbsEmulationReset(); }
  void TearDown() override { EXPECT_EQ(verbsEmulationReset(), 0) << "objects are still alive"; }
};

/// Two sides, on two devices, connected.
class ConnectedEmulation : public Emulation {
 protected:
  void make(const Wish& left = {}, const Wish& right = {}) {
    a = std::make_unique<Side>(0, left);
    b = std::make_unique<Side>(1, right);
    connect(*a, *b);
  }
  void TearDown() override {
    a.reset();
    b.reset();
    Emulation::TearDown();
  }
  std::unique_ptr<Side> a, b;
};

}  // namespace eccl::verbs_emulation
