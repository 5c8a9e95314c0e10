// What tests make go wrong, and arrivals that are as late and disordered as a device may make them.
#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "verbs_emulation/test_world.h"

namespace eccl::verbs_emulation {
namespace {

TEST_F(ConnectedEmulation, CallsFailByName) {
  make();
  ASSERT_EQ(verbsEmulationFailCall("ibv_create_qp", 2, ENOSPC), 0);
  ibv_qp* const first = a->makePair();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(a->makePair(), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(ibv_destroy_qp(first), 0);
  ASSERT_EQ(verbsEmulationFailCall("ibv_reg_mr", 1, EPERM), 0);
  EXPECT_EQ(ibv_reg_mr(a->domain, a->buffer.data(), 1, kRelaxed), nullptr);
  EXPECT_EQ(errno, EPERM);
  ASSERT_EQ(verbsEmulationFailCall("ibv_post_send", 1, EIO), 0);
  EXPECT_EQ(a->post(IBV_WR_SEND, 1, {}), EIO);
  ASSERT_EQ(verbsEmulationFailCall("ibv_poll_cq", 1, EIO), 0);
  ibv_wc one{};
  EXPECT_EQ(ibv_poll_cq(a->completions, 1, &one), -1);
  ASSERT_EQ(verbsEmulationFailCall("ibv_modify_qp", 1, ETIMEDOUT), 0);
  EXPECT_EQ(a->state(IBV_QPS_ERR), ETIMEDOUT);
  ASSERT_EQ(verbsEmulationFailCall("ibv_get_device_list", 1, ENOSYS), 0);
  int count = 1;
  EXPECT_EQ(ibv_get_device_list(&count), nullptr);
  EXPECT_EQ(count, 0);
}

TEST_F(ConnectedEmulation, MemoryIsLimited) {
  make();
  verbsEmulationLimitMemory(counters().registeredBytes + 100);
  EXPECT_EQ(ibv_reg_mr(a->domain, a->buffer.data(), 101, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  ibv_mr* const fits = ibv_reg_mr(a->domain, a->buffer.data(), 100, 0);
  ASSERT_NE(fits, nullptr);
  EXPECT_EQ(ibv_dereg_mr(fits), 0);
}

TEST_F(ConnectedEmulation, SendsFailAsAsked) {
  make();
  const uint32_t number = a->pair->qp_num;
  ASSERT_EQ(verbsEmulationFailCompletion(number, VERBS_EMULATION_SENDS, 2, IBV_WC_RETRY_EXC_ERR), 0);
  a->buffer[0] = 1;
  for (uint64_t id : {1, 2, 3}) {
    a->buffer[0] = static_cast<uint8_t>(id);
    ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 1)}, b.get()), 0);
  }
  EXPECT_EQ(a->statuses(),
            of(1, IBV_WC_SUCCESS) + " " + of(2, IBV_WC_RETRY_EXC_ERR) + " " + of(3, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(b->buffer[0], 1);
  EXPECT_EQ(verbsEmulationQueuePairState(b->pair->qp_num), IBV_QPS_RTS);
}

TEST_F(ConnectedEmulation, ReceivesFailAsAsked) {
  make();
  ASSERT_EQ(verbsEmulationFailCompletion(0, VERBS_EMULATION_RECEIVES, 1, IBV_WC_LOC_QP_OP_ERR), 0);
  ASSERT_EQ(b->receive(7, {b->piece(0, 8)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_LOC_QP_OP_ERR));
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_REM_OP_ERR));
}

TEST_F(ConnectedEmulation, PollsReturnFewIfAsked) {
  make();
  verbsEmulationLimitPoll(2);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 1)}, b.get()), 0);
  ibv_wc got[8];
  EXPECT_EQ(ibv_poll_cq(a->completions, 8, got), 2);
  EXPECT_EQ(ibv_poll_cq(a->completions, 8, got), 1);
  EXPECT_EQ(ibv_poll_cq(a->completions, 8, got), 0);
  EXPECT_EQ(counters().polls, 3u);
  EXPECT_EQ(counters().emptyPolls, 1u);
}

TEST_F(ConnectedEmulation, NothingArrivesWhileHeld) {
  make();
  ASSERT_EQ(verbsEmulationHoldQueuePair(a->pair->qp_num, 1), 0);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 1)}, b.get()), 0);
  ASSERT_EQ(b->post(IBV_WR_RDMA_WRITE, 2, {b->piece(0, 1)}, a.get()), 0);
  EXPECT_EQ(a->statuses(), "");
  EXPECT_EQ(b->statuses(), of(2, IBV_WC_SUCCESS));
  verbsEmulationHold(1);
  ASSERT_EQ(verbsEmulationHoldQueuePair(a->pair->qp_num, 0), 0);
  EXPECT_EQ(a->statuses(), "");
  verbsEmulationHold(0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, EveryOrderCopiesEverything) {
  make();
  for (size_t i = 0; i < 1000; ++i) a->buffer[i] = static_cast<uint8_t>(i % 251);
  for (const auto order : {VERBS_EMULATION_FORWARD, VERBS_EMULATION_BACKWARD, VERBS_EMULATION_SHUFFLED}) {
    ASSERT_EQ(verbsEmulationSetOrder(order, 0), 0);
    std::fill(b->buffer.begin(), b->buffer.end(), 0xff);
    ASSERT_EQ(b->receive(7, {b->piece(3, 500), b->piece(600, 600)}), 0);
    ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 301), a->piece(301, 699)}), 0);
    EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
    EXPECT_TRUE(std::equal(a->buffer.begin(), a->buffer.begin() + 500, b->buffer.begin() + 3));
    EXPECT_TRUE(std::equal(a->buffer.begin() + 500, a->buffer.begin() + 1000, b->buffer.begin() + 600));
    EXPECT_EQ(std::count(b->buffer.begin(), b->buffer.end(), 0xff), 3096);
  }
}

class RelaxedEmulation : public ConnectedEmulation {
 protected:
  void SetUp() override {
    ConnectedEmulation::SetUp();
    make();
    ASSERT_EQ(verbsEmulationSetOrder(VERBS_EMULATION_BACKWARD, 1), 0);
    std::fill(a->buffer.begin(), a->buffer.end(), 1);
  }
  void write() { ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 200)}, b.get()), 0); }
  long arrived() const { return std::count(b->buffer.begin(), b->buffer.end(), 1); }
};

TEST_F(RelaxedEmulation, WritesComeWithTheNextCompletion) {
  ASSERT_EQ(b->receive(7, {b->piece(1000, 8)}), 0);
  write();
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS));
  EXPECT_EQ(b->statuses(), "");
  EXPECT_EQ(arrived(), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 2, {a->piece(0, 8)}), 0);
  EXPECT_EQ(arrived(), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
  EXPECT_EQ(arrived(), 208);
}

TEST_F(ConnectedEmulation, TheEnvironmentAsksForAnOrder) {
  ASSERT_EQ(setenv("VERBS_EMULATION_ORDER", "backward,relaxed", 1), 0);
  verbsEmulationReset();
  unsetenv("VERBS_EMULATION_ORDER");
  make();
  a->buffer[0] = 1;
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE_WITH_IMM, 1, {a->piece(0, 1)}, b.get()), 0);
  ASSERT_EQ(b->receive(7, {}), 0);
  EXPECT_EQ(b->buffer[0], 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
  EXPECT_EQ(b->buffer[0], 1);
}

TEST_F(RelaxedEmulation, ReadsSeeWhatWasWrittenBefore) {
  write();
  ASSERT_EQ(a->post(IBV_WR_RDMA_READ, 2, {a->piece(1000, 8)}, b.get()), 0);
  EXPECT_EQ(arrived(), 200);
  a->buffer[1000] = 0;
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS) + " " + of(2, IBV_WC_SUCCESS));
  EXPECT_EQ(a->buffer[1000], 1);  // not before its completion
}

TEST_F(RelaxedEmulation, NothingComesAfterTheErrorState) {
  ASSERT_EQ(b->receive(7, {b->piece(1000, 8)}), 0);
  write();
  ASSERT_EQ(a->post(IBV_WR_SEND, 2, {a->piece(0, 8)}), 0);
  ASSERT_EQ(b->state(IBV_QPS_ERR), 0);
  EXPECT_EQ(arrived(), 208);
  std::fill(b->buffer.begin(), b->buffer.end(), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
  EXPECT_EQ(arrived(), 0);
}

TEST_F(RelaxedEmulation, NothingComesToDeregisteredMemory) {
  write();
  ASSERT_EQ(ibv_dereg_mr(b->region), 0);
  b->region = nullptr;
  EXPECT_EQ(arrived(), 200);
}

}  // namespace
}  // namespace eccl::verbs_emulation
