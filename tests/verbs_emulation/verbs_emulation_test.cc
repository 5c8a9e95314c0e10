// What works: devices, memory, the five operations, the accounts of queues.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <thread>

#include "verbs_emulation/test_world.h"

namespace eccl::verbs_emulation {
namespace {

TEST_F(Emulation, HasTwoDevicesWithGids) {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  ASSERT_EQ(count, 2);
  EXPECT_STREQ(ibv_get_device_name(list[0]), "emu0");
  EXPECT_NE(ibv_get_device_guid(list[0]), ibv_get_device_guid(list[1]));
  ibv_context* const context = ibv_open_device(list[1]);
  ibv_free_device_list(list);
  EXPECT_STREQ(ibv_get_device_name(context->device), "emu1");
  ibv_device_attr device{};
  EXPECT_EQ(ibv_query_device(context, &device), 0);
  EXPECT_EQ(device.phys_port_cnt, 1);
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.gid_tbl_len, 4);
  EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context, 1, 3, &entry, 0), 0);
  EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
  EXPECT_EQ(entry.gid.raw[15], 2);
  ibv_gid_entry table[8];
  EXPECT_EQ(ibv_query_gid_table(context, table, 8, 0), 4);
  EXPECT_EQ(table[0].gid_type, IBV_GID_TYPE_ROCE_V1);
  uint16_t pkey = 0;
  EXPECT_EQ(ibv_query_pkey(context, 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(Emulation, RegistersWhatIsMapped) {
  Side side(0);
  EXPECT_EQ(counters().registeredBytes, side.buffer.size());
  EXPECT_NE(side.region->lkey, side.region->rkey);
  auto* const readOnly = const_cast<char*>("constant");
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(side.domain, readOnly, 8, kLocal), nullptr);
  EXPECT_EQ(errno, EFAULT);
  ibv_mr* const region = ibv_reg_mr(side.domain, readOnly, 8, kRelaxed);
  ASSERT_NE(region, nullptr);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  EXPECT_EQ(ibv_reg_mr(side.domain, side.buffer.data(), 8, kRemote), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// At addresses that the process has nothing at.
TEST_F(ConnectedEmulation, WritesToMemoryOfAnotherDevice) {
  make();
  constexpr uint64_t kPage = 4096, kAddress = 0x100000000000;
  const int file = memfd_create("device", 0);
  ASSERT_EQ(ftruncate(file, 2 * kPage), 0);
  EXPECT_EQ(ibv_reg_dmabuf_mr(b->domain, 100, kPage, kAddress, file, kAllAccess), nullptr);
  EXPECT_EQ(errno, EINVAL);
  verbsEmulationRefuseDmabufs(1);
  EXPECT_EQ(ibv_reg_dmabuf_mr(b->domain, kPage, kPage, kAddress, file, kAllAccess), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  verbsEmulationRefuseDmabufs(0);
  ibv_mr* const region = ibv_reg_dmabuf_mr(b->domain, kPage, kPage, kAddress, file, kAllAccess);
  ASSERT_NE(region, nullptr);
  std::iota(a->buffer.begin(), a->buffer.end(), uint8_t{0});
  ibv_sge piece = a->piece(0, 200);
  ibv_send_wr request{}, *bad = nullptr;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.wr.rdma = {kAddress + 50, region->rkey};
  ASSERT_EQ(ibv_post_send(a->pair, &request, &bad), 0);
  std::vector<uint8_t> found(200);
  ASSERT_EQ(pread(file, found.data(), found.size(), kPage + 50), 200);
  EXPECT_TRUE(std::equal(found.begin(), found.end(), a->buffer.begin()));
  EXPECT_EQ(counters().deviceBytesWritten, 200u);
  EXPECT_EQ(ibv_dereg_mr(region), 0);
  close(file);
}

TEST_F(Emulation, ObjectsInUseAreBusy) {
  Side side(0, {.channel = true});
  EXPECT_EQ(ibv_dealloc_pd(side.domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(side.completions), EBUSY);
  EXPECT_EQ(ibv_destroy_comp_channel(side.channel), EBUSY);
}

TEST_F(ConnectedEmulation, SendsAndAnswers) {
  make();
  std::iota(a->buffer.begin(), a->buffer.end(), uint8_t{0});
  ASSERT_EQ(b->receive(7, {b->piece(100, 300)}), 0);
  ASSERT_EQ(a->receive(8, {a->piece(2000, 300)}), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 100), a->piece(1000, 150)}), 0);
  const auto got = b->poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV);
  EXPECT_EQ(got[0].wr_id, 7u);
  EXPECT_EQ(got[0].byte_len, 250u);
  EXPECT_EQ(got[0].qp_num, b->pair->qp_num);
  EXPECT_TRUE(std::equal(a->buffer.begin(), a->buffer.begin() + 100, b->buffer.begin() + 100));
  EXPECT_TRUE(std::equal(a->buffer.begin() + 1000, a->buffer.begin() + 1150, b->buffer.begin() + 200));
  ASSERT_EQ(b->post(IBV_WR_SEND_WITH_IMM, 9, {b->piece(100, 250)}), 0);
  const auto answer = a->poll();
  ASSERT_EQ(answer.size(), 2u);
  EXPECT_EQ(answer[0].wr_id, 1u);
  EXPECT_EQ(answer[0].opcode, IBV_WC_SEND);
  EXPECT_EQ(answer[1].wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(answer[1].imm_data, 9u);
  EXPECT_EQ(counters().movedBytes, 500u);
  EXPECT_EQ(counters().sends, 1u);
  EXPECT_EQ(counters().sendsWithImm, 1u);
}

TEST_F(ConnectedEmulation, WritesWithASendBehind) {
  make();
  std::fill_n(a->buffer.begin(), 200, uint8_t{5});
  ASSERT_EQ(b->receive(7, {b->piece(0, 8)}), 0);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 200)}, b.get(), 64, 0), 0);
  ASSERT_EQ(a->post(IBV_WR_SEND, 2, {a->piece(0, 8)}), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
  EXPECT_EQ(std::count(b->buffer.begin() + 64, b->buffer.begin() + 264, 5), 200);
  EXPECT_EQ(b->buffer[264], 0);
  EXPECT_EQ(a->statuses(), of(2, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, WritesWithImmediateUseAReceive) {
  make();
  a->buffer[0] = 42;
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE_WITH_IMM, 3, {a->piece(0, 1)}, b.get(), 9), 0);
  EXPECT_EQ(a->statuses(), "");  // there is none yet
  ASSERT_EQ(b->receive(7, {}), 0);
  const auto got = b->poll();
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(got[0].byte_len, 1u);
  EXPECT_EQ(b->buffer[9], 42);
  EXPECT_EQ(a->statuses(), of(3, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, Reads) {
  make();
  b->buffer[5] = 17;
  ASSERT_EQ(a->post(IBV_WR_RDMA_READ, 4, {a->piece(30, 2)}, b.get(), 4, IBV_SEND_SIGNALED | IBV_SEND_FENCE), 0);
  EXPECT_EQ(a->buffer[31], 17);
  const auto done = a->poll();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].opcode, IBV_WC_RDMA_READ);
}

TEST_F(ConnectedEmulation, InlineDataMayBeReusedAtOnce) {
  make();
  a->buffer[0] = 1;
  ibv_sge piece = a->piece(0, 4);
  piece.lkey = 0;  // is not looked at
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {piece}, nullptr, 0, IBV_SEND_SIGNALED | IBV_SEND_INLINE), 0);
  a->buffer[0] = 2;
  ASSERT_EQ(b->receive(7, {b->piece(0, 4)}), 0);
  EXPECT_EQ(b->statuses(), of(7, IBV_WC_SUCCESS));
  EXPECT_EQ(b->buffer[0], 1);
  EXPECT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 65)}, nullptr, 0, IBV_SEND_INLINE), ENOMEM);
}

TEST_F(ConnectedEmulation, PlacesComeBackWithPolledCompletions) {
  make({.cap = {3, 2, 2, 2, 0}});
  for (uint64_t id : {1, 2}) ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 8)}, b.get(), 0, 0), 0);
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 3, {a->piece(0, 8)}, b.get()), 0);
  EXPECT_EQ(a->post(IBV_WR_RDMA_WRITE, 4, {a->piece(0, 8)}, b.get()), ENOMEM);  // done, but not polled
  EXPECT_EQ(a->statuses(), of(3, IBV_WC_SUCCESS));
  for (uint64_t id : {5, 6, 7}) ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, id, {a->piece(0, 8)}, b.get(), 0, 0), 0);
  EXPECT_EQ(a->statuses(), "");
  EXPECT_EQ(a->post(IBV_WR_RDMA_WRITE, 8, {a->piece(0, 8)}, b.get()), ENOMEM);  // nobody signals: stuck
  for (uint64_t id : {1, 2}) ASSERT_EQ(a->receive(id, {}), 0);
  EXPECT_EQ(a->receive(3, {}), ENOMEM);
}

TEST_F(ConnectedEmulation, SignalsAllIfAsked) {
  make({.signalAll = true});
  ASSERT_EQ(a->post(IBV_WR_RDMA_WRITE, 1, {a->piece(0, 8)}, b.get(), 0, 0), 0);
  EXPECT_EQ(a->statuses(), of(1, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, ListsOfRequestsStopAtTheFirstBadOne) {
  make({.cap = {2, 2, 1, 1, 0}});
  ibv_sge pieces[] = {a->piece(0, 1), a->piece(8, 1)};
  ibv_send_wr list[3]{}, *bad = nullptr;
  for (int i = 0; i < 3; ++i)
    list[i] = {.wr_id = 1,
               .next = i < 2 ? &list[i + 1] : nullptr,
               .sg_list = pieces,
               .num_sge = i == 1 ? 2 : 1,
               .opcode = IBV_WR_SEND};
  EXPECT_EQ(ibv_post_send(a->pair, list, &bad), ENOMEM);
  EXPECT_EQ(bad, &list[1]);
  EXPECT_EQ(counters().sends, 1u);
  EXPECT_EQ(counters().sendDoorbells, 1u);
}

TEST_F(ConnectedEmulation, SharedReceivesServeAllQueuePairs) {
  ibv_srq_init_attr init{nullptr, {2, 1, 0}};
  make({}, {.shared = &init});
  ASSERT_EQ(b->receive(1, {b->piece(0, 8)}), 0);
  ASSERT_EQ(b->receive(2, {b->piece(8, 8)}), 0);
  EXPECT_EQ(b->receive(3, {b->piece(16, 8)}), ENOMEM);
  ASSERT_EQ(a->post(IBV_WR_SEND, 1, {a->piece(0, 8)}), 0);
  EXPECT_EQ(b->statuses(), of(1, IBV_WC_SUCCESS));
  EXPECT_EQ(b->receive(3, {b->piece(16, 8)}), 0);
}

TEST_F(Emulation, InfiniBandPortsReachEachOtherByLid) {
  verbsEmulationRemoveAllDevices();
  const ibv_gid own{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1}};
  for (const char* name : {"ib0", "ib1"}) {
    const int device = verbsEmulationAddDevice(name);
    ASSERT_EQ(verbsEmulationAddPort(device, IBV_LINK_LAYER_INFINIBAND, static_cast<uint16_t>(device)), 1);
    ASSERT_EQ(verbsEmulationSetGid(device, 1, 0, &own, IBV_GID_TYPE_IB), 0);
  }
  Side a(0, {.gidIndex = 0}), b(1, {.gidIndex = 0});
  const auto connectByLid = [](Side& from, Side& to, uint16_t lid) {
    EXPECT_EQ(from.modify(from.pair, from.attributes(IBV_QPS_INIT), kToInit), 0);
    ibv_qp_attr all = from.attributes(IBV_QPS_RTR, to.pair->qp_num);
    all.ah_attr.is_global = 0;
    all.ah_attr.dlid = lid;
    EXPECT_EQ(from.modify(from.pair, all, kToReceive), 0);
    EXPECT_EQ(from.modify(from.pair, from.attributes(IBV_QPS_RTS), kToSend), 0);
  };
  connectByLid(a, b, 3);
  connectByLid(b, a, 2);
  ASSERT_EQ(a.post(IBV_WR_RDMA_WRITE, 1, {a.piece(0, 8)}, &b), 0);
  EXPECT_EQ(a.statuses(), of(1, IBV_WC_SUCCESS));
}

TEST_F(ConnectedEmulation, ThreadsShareACompletionQueue) {
  constexpr int kMessages = 300;
  make({.signalAll = true}, {.signalAll = true});
  ibv_qp* const second = a->makePair();
  ibv_qp* const secondPeer = b->makePair();
  a->connect(second, secondPeer->qp_num, b->gid());
  b->connect(secondPeer, second->qp_num, a->gid());
  // Each thread writes where no other does, and polls until as many completions came as there are writes.
  std::atomic<int> done{0};
  const auto run = [&](ibv_qp* pair, size_t offset) {
    int posted = 0;
    while (done.load() < 2 * kMessages) {
      ibv_sge piece = a->piece(offset, 8);
      ibv_send_wr wr{}, *bad = nullptr;
      wr.sg_list = &piece, wr.num_sge = 1, wr.opcode = IBV_WR_RDMA_WRITE;
      wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b->buffer.data() + offset);
      wr.wr.rdma.rkey = b->region->rkey;
      if (posted < kMessages && ibv_post_send(pair, &wr, &bad) == 0) ++posted;
      ibv_wc got[4];
      const int count = ibv_poll_cq(a->completions, 4, got);
      for (int i = 0; i < count; ++i) EXPECT_EQ(got[i].status, IBV_WC_SUCCESS);
      done.fetch_add(count);
    }
  };
  std::thread other(run, second, 512);
  run(a->pair, 0);
  other.join();
  EXPECT_EQ(counters().writes, 2u * kMessages);
  EXPECT_EQ(ibv_destroy_qp(second), 0);
  EXPECT_EQ(ibv_destroy_qp(secondPeer), 0);
}

}  // namespace
}  // namespace eccl::verbs_emulation
