// Descriptors and events: completion channels, asynchronous events, ports, devices.
#include <poll.h>

#include <cerrno>
#include <thread>

#include "verbs_emulation/test_world.h"

namespace eccl::verbs_emulation {
namespace {

bool readable(int descriptor) {
  pollfd one{descriptor, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

/// Takes one event of the channel and acknowledges it.
void takeEvent(const Side& side) {
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(side.channel, &queue, &user), 0);
  EXPECT_EQ(queue, side.completions);
  EXPECT_EQ(user, &side);
  ibv_ack_cq_events(queue, 1);
}

class ChannelEmulation : public ConnectedEmulation {
 protected:
  void SetUp() override {
    ConnectedEmulation::SetUp();
    make({.channel = true}, {.channel = true});
  }
  void write(uint64_t id) { ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 8)}, b.get()), 0); }
};

TEST_F(ChannelEmulation, TellsOnceForEachArming) {
  write(1);
  EXPECT_FALSE(readable(a->channel->fd));  // it was not asked for
  ASSERT_EQ(ibv_req_notify_cq(a->completions, 0), 0);
  EXPECT_FALSE(readable(a->channel->fd));  // what was there before is told by nobody
  write(2);
  write(3);
  EXPECT_TRUE(readable(a->channel->fd));
  takeEvent(*a);
  EXPECT_FALSE(readable(a->channel->fd));
  EXPECT_EQ(counters().channelEvents, 1u);
  EXPECT_EQ(a->poll().size(), 3u);
}

TEST_F(ChannelEmulation, DoesNotWaitIfNonBlocking) {
  ASSERT_EQ(fcntl(a->channel->fd, F_SETFL, O_NONBLOCK), 0);
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  EXPECT_EQ(ibv_get_cq_event(a->channel, &queue, &user), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(ChannelEmulation, TellsOfSolicitedAndFailedOnesOnlyIfAsked) {
  ASSERT_EQ(ibv_req_notify_cq(b->completions, 1), 0);
  for (uint64_t id : {1, 2, 3}) ASSERT_EQ(b->receive(id, {b->piece(0, 8)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  EXPECT_FALSE(readable(b->channel->fd));
  ASSERT_EQ(a->post(IBV_WR_SEND, 2, {a->piece(0, 8)}, nullptr, 0, IBV_SEND_SOLICITED), 0);
  EXPECT_TRUE(readable(b->channel->fd));
  takeEvent(*b);
  ASSERT_EQ(ibv_req_notify_cq(b->completions, 1), 0);
  ASSERT_EQ(b->state(IBV_QPS_ERR), 0);
  EXPECT_TRUE(readable(b->channel->fd));
  takeEvent(*b);
}

TEST_F(ChannelEmulation, WakesWhoSleeps) {
  ASSERT_EQ(b->receive(7, {b->piece(0, 8)}), 0);
  ASSERT_EQ(ibv_req_notify_cq(b->completions, 0), 0);
  std::thread sleeper([&] {
    takeEvent(*b);
    EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
    EXPECT_EQ(b->buffer[3], 9);
  });
  a->buffer[3] = 9;
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  sleeper.join();
}

/// A receiver that arms, polls once more and sleeps loses nothing, whenever messages come.
TEST_F(ChannelEmulation, NothingIsLostBetweenArmingAndSleep) {
  constexpr uint64_t kMessages = 500;
  std::thread receiver([&] {
    uint64_t received = 0, posted = 0;
    while (received < kMessages) {
      while (posted < kMessages && posted - received < 8) ASSERT_EQ(b->receive(posted++, {b->piece(0, 8)}), 0);
      ASSERT_EQ(ibv_req_notify_cq(b->completions, 0), 0);
      const size_t count = b->poll().size();
      received += count;
      if (count == 0) takeEvent(*b);
    }
  });
  for (uint64_t sent = 0, done = 0; done < kMessages;) {
    if (sent < kMessages && a->post(IBV_WR_SEND, sent, {a->piece(0, 8)}) == 0) ++sent;
    for (const ibv_wc& each : a->poll()) {
      ASSERT_EQ(each.status, IBV_WC_SUCCESS);
      ++done;
    }
  }
  receiver.join();
}

TEST_F(ChannelEmulation, WakesASenderWhosePeerIsGone) {
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);  // waits for a receive
  ASSERT_EQ(ibv_req_notify_cq(a->completions, 0), 0);
  EXPECT_FALSE(readable(a->channel->fd));
  ASSERT_EQ(b->state(IBV_QPS_ERR), 0);
  takeEvent(*a);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
}

TEST_F(ChannelEmulation, DestructionWaitsForAcknowledgement) {
  ASSERT_EQ(ibv_req_notify_cq(a->completions, 0), 0);
  write(1);
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  ASSERT_EQ(ibv_get_cq_event(a->channel, &queue, &user), 0);
  ASSERT_EQ(ibv_destroy_qp(a->pair), 0);
  a->pair = nullptr;
  std::atomic<bool> acknowledged{false};
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    acknowledged = true;
    ibv_ack_cq_events(queue, 1);
  });
  EXPECT_EQ(ibv_destroy_cq(a->completions), 0);
  EXPECT_TRUE(acknowledged);
  later.join();
  a->completions = ibv_create_cq(a->context, 1, nullptr, nullptr, 0);  // for the destructor
}

TEST_F(ChannelEmulation, EventsOfADestroyedQueueAreDropped) {
  ASSERT_EQ(ibv_req_notify_cq(a->completions, 0), 0);
  write(1);
  ASSERT_EQ(ibv_destroy_qp(a->pair), 0);
  ASSERT_EQ(ibv_destroy_cq(a->completions), 0);
  EXPECT_FALSE(readable(a->channel->fd));
  a->pair = nullptr;
  a->completions = ibv_create_cq(a->context, 1, nullptr, nullptr, 0);
}

TEST_F(ConnectedEmulation, PortsGoDownAndUp) {
  make();
  ASSERT_EQ(verbsEmulationSetPortState(1, 1, IBV_PORT_DOWN), 0);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(b->context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get()), 0);
  ASSERT_EQ(verbsEmulationSetPortState(1, 1, IBV_PORT_ACTIVE), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS));  // it was down for a moment
  ASSERT_EQ(verbsEmulationSetPortState(1, 1, IBV_PORT_DOWN), 0);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 2, {a->piece(0, 8)}, b.get()), 0);
  ASSERT_EQ(b->post(IBV_WR_RDMA_WRITE, 3, {b->piece(0, 8)}, a.get()), 0);
  EXPECT_EQ(a->statuses(), of(2, IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(b->statuses(), of(3, IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(b->events(), (std::vector{IBV_EVENT_PORT_ERR, IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR}));
  EXPECT_EQ(a->events(), std::vector<ibv_event_type>{});
}

TEST_F(ConnectedEmulation, ADeviceDies) {
  make();
  ASSERT_EQ(b->receive(7, {}), 0);
  ASSERT_EQ(verbsEmulationFatal(1), 0);
  EXPECT_TRUE(readable(b->context->async_fd));
  EXPECT_EQ(b->events(), std::vector{IBV_EVENT_DEVICE_FATAL});
  EXPECT_FALSE(readable(b->context->async_fd));
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_WR_FLUSH_ERR));
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(ibv_alloc_pd(b->context), nullptr);
  EXPECT_EQ(errno, EIO);
  EXPECT_EQ(b->makePair(), nullptr);
  EXPECT_EQ(errno, EIO);
}

TEST_F(ConnectedEmulation, GidsChange) {
  make();
  ibv_gid other = b->gid();
  other.raw[15] = 99;
  ASSERT_EQ(verbsEmulationChangeGid(1, 1, 3, &other, IBV_GID_TYPE_ROCE_V2), 0);
  EXPECT_EQ(b->events(), std::vector{IBV_EVENT_GID_CHANGE});
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_RETRY_EXC_ERR));
  ASSERT_EQ(verbsEmulationChangeGid(1, 1, 3, nullptr, 0), 0);
  ibv_gid_entry entry{};
  EXPECT_EQ(ibv_query_gid_ex(b->context, 1, 3, &entry, 0), ENODATA);
}

TEST_F(ConnectedEmulation, QueuePairsBreak) {
  make();
  ASSERT_EQ(a->receive(1, {}), 0);
  ASSERT_EQ(verbsEmulationBreakQueuePair(a->pair->qp_num), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_WR_FLUSH_ERR));
  EXPECT_EQ(a->events(), std::vector{IBV_EVENT_QP_FATAL});
  ASSERT_EQ(verbsEmulationRaise(0, IBV_EVENT_LID_CHANGE, 1), 0);
  EXPECT_EQ(a->events(), std::vector{IBV_EVENT_LID_CHANGE});
}

}  // namespace
}  // namespace eccl::verbs_emulation
