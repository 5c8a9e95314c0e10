// What fails: keys, lengths, receivers that are not there, peers that are gone, and what becomes of the rest.
#include <cerrno>

#include "verbs_emulation/test_world.h"

namespace eccl::verbs_emulation {
namespace {

/// A request that is refused at the responder: how both sides end.
class RefusedEmulation : public ConnectedEmulation {
 protected:
  void expectRefused(ibv_wc_status status, ibv_event_type event) {
    EXPECT_EQ(a->statuses(), of(1, status));
    EXPECT_EQ(verbsEmulationQueuePairState(a->pair->qp_num), IBV_QPS_ERR);
    EXPECT_EQ(verbsEmulationQueuePairState(b->pair->qp_num), IBV_QPS_ERR);
    EXPECT_EQ(b->events(), std::vector{event});
    EXPECT_EQ(b->buffer, std::vector<uint8_t>(b->buffer.size()));
  }
};

TEST_F(RefusedEmulation, WriteBehindTheRegion) {
  make();
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get(), b->buffer.size() - 63), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RefusedEmulation, WriteToMemoryThatIsReadOnly) {
  make({}, {.memoryAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ});
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get()), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RefusedEmulation, WriteByAQueuePairThatAllowsNone) {
  make({}, {.qpAccess = IBV_ACCESS_REMOTE_READ});
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get()), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RefusedEmulation, ReadOfMemoryThatAllowsNone) {
  make({}, {.memoryAccess = IBV_ACCESS_LOCAL_WRITE});
  ASSERT_EQ(a->post(IBV_WR_RDMA_READ, 1, {a->piece(0, 64)}, b.get()), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RefusedEmulation, WriteByALocalKey) {
  make();
  ibv_mr wrong = *b->region;
  std::swap(wrong.lkey, wrong.rkey);
  std::swap(b->region->rkey, wrong.rkey);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get()), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(RefusedEmulation, WriteToMemoryOfAnotherDomain) {
  make();
  ibv_pd* const other = ibv_alloc_pd(b->context);
  ibv_mr* const region = ibv_reg_mr(other, b->buffer.data(), b->buffer.size(), kAllAccess);
  std::swap(b->region->rkey, region->rkey);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get()), 0);
  expectRefused(IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
  std::swap(b->region->rkey, region->rkey);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_dealloc_pd(other), 0);
}

TEST_F(ConnectedEmulation, DeregisteredMemoryIsRefused) {
  make();
  const uint32_t key = b->region->rkey;
  ASSERT_EQ(ibv_dereg_mr(b->region), 0);
  ibv_mr stale{};
  stale.rkey = key;
  b->region = &stale;
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 64)}, b.get()), 0);
  b->region = nullptr;
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(ConnectedEmulation, LocalKeysAreLookedAt) {
  make();
  ibv_sge wrong = a->piece(0, 64);
  wrong.lkey = a->region->rkey;
  ASSERT_EQ(b->receive(7, {b->piece(0, 64)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {wrong}), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(b->statuses(), "");  // it has seen nothing
  EXPECT_EQ(verbsEmulationQueuePairState(b->pair->qp_num), IBV_QPS_RTS);
}

TEST_F(ConnectedEmulation, WhatIsReadNeedsLocalAccess) {
  make({.memoryAccess = 0});
  ASSERT_EQ(a->post(IBV_WR_RDMA_READ, 1, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ConnectedEmulation, ReceivesNeedLocalAccess) {
  make({}, {.memoryAccess = IBV_ACCESS_REMOTE_READ});
  ASSERT_EQ(b->receive(7, {b->piece(0, 64)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 64)}), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_LOC_PROT_ERR));
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_REM_OP_ERR));
}

TEST_F(ConnectedEmulation, MessagesThatDoNotFitAreRefused) {
  make();
  ASSERT_EQ(b->receive(7, {b->piece(0, 32), b->piece(64, 31)}), 0);
  ASSERT_EQ(b->receive(8, {b->piece(0, 64)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 64)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 2, {a->piece(0, 64)}), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_LOC_LEN_ERR) + " " + of(8, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_REM_INV_REQ_ERR) + " " + of(2, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(ConnectedEmulation, FailedCompletionsHoldNothingElse) {
  make();
  ASSERT_EQ(a->receive(7, {a->piece(0, 8)}), 0);
  ASSERT_EQ(a->state(IBV_QPS_ERR), 0);
  const auto flushed = a->poll();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].qp_num, a->pair->qp_num);
  EXPECT_EQ(flushed[0].byte_len, 0xeeeeeeeeu);
  EXPECT_EQ(static_cast<int>(flushed[0].opcode), 0xee);
}

TEST_F(ConnectedEmulation, FlushesInOrderWhetherSignalledOrNot) {
  make();
  verbsEmulationHold(1);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(a->post(IBV_WR_SEND, id, {a->piece(0, 8)}, nullptr, 0, 0), 0);
  for (uint64_t id : {11, 12}) ASSERT_EQ(a->receive(id, {a->piece(0, 8)}), 0);
  ASSERT_EQ(a->state(IBV_QPS_ERR), 0);
  std::string expected;
  for (uint64_t id : {1, 2, 3, 11, 12}) expected += (id == 1 ? "" : " ") + of(id, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a->statuses(), expected);
  // What is posted later is flushed too.
  ASSERT_EQ(a->post(IBV_WR_SEND, 4, {a->piece(0, 8)}), 0);
  ASSERT_EQ(a->receive(13, {}), 0);
  EXPECT_EQ(a->statuses(), of(4, IBV_WC_WR_FLUSH_ERR) + " " + of(13, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(ConnectedEmulation, NothingArrivesAfterTheErrorState) {
  make();
  verbsEmulationHold(1);
  a->buffer[0] = 1;
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get()), 0);
  ASSERT_EQ(b->state(IBV_QPS_ERR), 0);
  verbsEmulationHold(0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(b->buffer[0], 0);
}

TEST_F(ConnectedEmulation, ADestroyedPeerDoesNotAnswer) {
  make();
  ASSERT_EQ(ibv_destroy_qp(b->pair), 0);
  b->pair = nullptr;
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(verbsEmulationQueuePairState(a->pair->qp_num), IBV_QPS_RTS);  // it tries again
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(verbsEmulationQueuePairState(a->pair->qp_num), IBV_QPS_ERR);
}

TEST_F(ConnectedEmulation, AResetPeerDoesNotAnswer) {
  make();
  ASSERT_EQ(b->receive(7, {}), 0);
  ASSERT_EQ(b->state(IBV_QPS_RESET), 0);
  EXPECT_EQ(b->statuses(), "");  // forgotten, not flushed
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {}), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(ConnectedEmulation, SendersWaitForReceivesForEverIfAsked) {
  make();
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a->statuses(), "");
  ASSERT_EQ(b->receive(7, {b->piece(0, 8)}), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS));
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, SendersWaitForReceivesNoLongerThanAsked) {
  make({.rnrRetry = 3});
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RNR_RETRY_EXC_ERR));
  EXPECT_EQ(verbsEmulationQueuePairState(b->pair->qp_num), IBV_QPS_RTS);
}

TEST_F(Emulation, SequenceNumbersHaveToFit) {
  Side a(0), b(1);
  ibv_qp_attr other = b.attributes(IBV_QPS_RTR, a.pair->qp_num, a.gid());
  other.rq_psn = kSequence + 1;
  a.connect(a.pair, b.pair->qp_num, b.gid());
  ASSERT_EQ(b.modify(b.pair, b.attributes(IBV_QPS_INIT), kToInit), 0);
  ASSERT_EQ(b.modify(b.pair, other, kToReceive), 0);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.piece(0, 8)}, &b), 0);
  EXPECT_EQ(a.statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(Emulation, GidsOfBothEndsHaveToBeOfOneType) {
  Side a(0), b(1, {.gidIndex = 2});  // RoCE v1, the same address as at 3
  connect(a, b);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.piece(0, 8)}, &b), 0);
  EXPECT_EQ(a.statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(Emulation, WaitsForAPeerThatIsNotReadyYet) {
  Side a(0), b(1);
  ASSERT_EQ(b.modify(b.pair, b.attributes(IBV_QPS_INIT), kToInit), 0);
  a.connect(a.pair, b.pair->qp_num, b.gid());
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.piece(0, 8)}, &b), 0);
  EXPECT_EQ(a.statuses(), "");
  ASSERT_EQ(b.modify(b.pair, b.attributes(IBV_QPS_RTR, a.pair->qp_num, a.gid()), kToReceive), 0);
  EXPECT_EQ(a.statuses(), of(1, IBV_WC_SUCCESS));
  EXPECT_EQ(b.events(), std::vector{IBV_EVENT_COMM_EST});
}

TEST_F(Emulation, TransitionsNeedTheirAttributes) {
  Side a(0);
  const auto needs = [&](const ibv_qp_attr& all, int mask) {
    for (int bit = IBV_QP_STATE << 1; bit <= mask; bit <<= 1) {
      if ((mask & bit) != 0) { EXPECT_EQ(a.modify(a.pair, all, mask & ~bit), EINVAL) << "without " << bit; }
    }
    EXPECT_EQ(a.modify(a.pair, all, mask | IBV_QP_QKEY), EINVAL);
  };
  const auto refuses = [&](ibv_qp_attr all, int mask, auto change) {
    change(all);
    EXPECT_EQ(a.modify(a.pair, all, mask), EINVAL);
  };
  EXPECT_EQ(a.receive(1, {}), EINVAL);  // not yet
  const ibv_qp_attr init = a.attributes(IBV_QPS_INIT), receive = a.attributes(IBV_QPS_RTR, 5, a.gid());
  needs(init, kToInit);
  refuses(init, kToInit, [](ibv_qp_attr& all) { all.port_num = 2; });
  refuses(init, kToInit, [](ibv_qp_attr& all) { all.pkey_index = 1; });
  refuses(receive, kToReceive, [](ibv_qp_attr&) {});  // INIT is left out
  ASSERT_EQ(a.modify(a.pair, init, kToInit), 0);
  EXPECT_EQ(a.receive(1, {}), 0);
  needs(receive, kToReceive);
  refuses(receive, kToReceive, [](ibv_qp_attr& all) { all.ah_attr.grh.sgid_index = 4; });
  refuses(receive, kToReceive, [](ibv_qp_attr& all) { all.ah_attr.grh.dgid = {}; });
  refuses(receive, kToReceive, [](ibv_qp_attr& all) { all.ah_attr.is_global = 0; });
  refuses(receive, kToReceive, [](ibv_qp_attr& all) { all.ah_attr.port_num = 2; });
  refuses(receive, kToReceive, [](ibv_qp_attr& all) { all.path_mtu = IBV_MTU_4096; });
  ASSERT_EQ(a.modify(a.pair, receive, kToReceive), 0);
  EXPECT_EQ(a.post(IBV_WR_SEND, 1, {}), EINVAL);  // not yet
  needs(a.attributes(IBV_QPS_RTS), kToSend);
  refuses(a.attributes(IBV_QPS_RTS), kToSend, [](ibv_qp_attr& all) { all.timeout = 32; });
  ASSERT_EQ(a.modify(a.pair, a.attributes(IBV_QPS_RTS), kToSend), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr made{};
  ASSERT_EQ(ibv_query_qp(a.pair, &now, IBV_QP_STATE, &made), 0);
  EXPECT_EQ(now.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(now.dest_qp_num, 5u);
  EXPECT_EQ(made.cap.max_send_wr, 16u);
}

TEST_F(Emulation, QueuePairsKeepToTheLimits) {
  ASSERT_EQ(verbsEmulationSetLimits(0, 1, 8, 2, 100, 32), 0);
  Side a(0, {.cap = {8, 8, 2, 2, 32}});
  EXPECT_EQ(a.makePair(), nullptr);
  EXPECT_EQ(errno, ENOMEM);  // one is there
  const ibv_qp_cap tooMuch[] = {
      {9, 8, 2, 2, 0}, {8, 9, 2, 2, 0}, {8, 8, 3, 2, 0}, {8, 8, 2, 3, 0}, {8, 8, 2, 2, 33}};
  for (const ibv_qp_cap& cap : tooMuch) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = a.completions;
    init.qp_type = IBV_QPT_RC;
    init.cap = cap;
    EXPECT_EQ(ibv_create_qp(a.domain, &init), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(ibv_create_cq(a.context, 101, nullptr, nullptr, 0), nullptr);
}

using EmulationDeathTest = ConnectedEmulation;

TEST_F(EmulationDeathTest, CompletionQueuesDoNotOverrun) {
  make({.completions = 2});
  for (uint64_t id : {1, 2}) ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_DEATH(a->post(IBV_WR_RDMA_WRITE, 3, {a->piece(0, 8)}, b.get()),
               "completion queue of 2 entries overruns");
  verbsEmulationTolerate(1);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 3, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(a->events(), std::vector{IBV_EVENT_CQ_ERR});
  EXPECT_EQ(counters().violations, 1u);
}

TEST_F(EmulationDeathTest, HandlesThatDoNotLiveAreFound) {
  make();
  ibv_cq* const queue = ibv_create_cq(a->context, 1, nullptr, nullptr, 0);
  ASSERT_EQ(ibv_destroy_cq(queue), 0);
  EXPECT_DEATH(ibv_destroy_cq(queue), "ibv_destroy_cq: .* is no living completion queue");
  EXPECT_DEATH(ibv_close_device(a->context), "2 objects of the context live");
  EXPECT_DEATH(ibv_ack_cq_events(a->completions, 1), "1 events are acknowledged, and 0 were taken");
  verbsEmulationTolerate(1);
  EXPECT_EQ(ibv_dealloc_pd(reinterpret_cast<ibv_pd*>(queue)), EINVAL);
  EXPECT_EQ(counters().violations, 1u);
}

}  // namespace
}  // namespace eccl::verbs_emulation
