// Every collective on a GPU's memory, staged through the host or by lanes on the GPU, of ranks that are threads
// of one process (processes_test.cc has those in several).
#include <algorithm>

#include "cuda/cases.h"
#include "support/sanitizers.h"

namespace eccl {
namespace {

using test::asStream;
using test::compare;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::kAll;
using test::Ranks;
using test::What;

/// How the ranks of a test are placed: "cuda" is staged.
struct Setup {
  int ranks;
  const char* kind;
  int devices;
};
void PrintTo(const Setup& setup, std::ostream* out) {
  *out << setup.ranks << " ranks, " << setup.kind << ", " << setup.devices << " devices";
}

class DeviceCollectives : public test::CudaTest, public ::testing::WithParamInterface<Setup> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (kSanitized && GetParam().ranks == 8) GTEST_SKIP() << "takes minutes under a sanitizer; 4 ranks do not";
    if (GetParam().ranks == 8 && std::string(GetParam().kind) == "cuda" && !Cuda::get().emulated())
      GTEST_SKIP() << "a GPU's queues do not hold so many staged ranks of one process apart (docs/gpu.md)";
    kernels_ = kernels();
  }
  void TearDown() override {
    if (Cuda::get().emulated() && !IsSkipped()) {
      EXPECT_EQ(kernels() > kernels_, std::string(GetParam().kind) != "cuda");
    }
    CudaTest::TearDown();
  }

  static int64_t kernels() { return Cuda::get().emulated() ? Cuda::get().control->kernels.load() : 0; }
  int64_t kernels_ = 0;
  static Ranks onDevice() { return Ranks(GetParam().ranks, GetParam().kind, GetParam().devices); }
};

TEST_P(DeviceCollectives, GiveTheBitsOfTheHost) {
  setenv("ECCL_SLOT_BYTES", "4096", 1);
  Ranks host(GetParam().ranks, "host"), device = onDevice();
  unsetenv("ECCL_SLOT_BYTES");
  test::sweep(host, device);
}

// Short messages and long ones, of random bits, some of which are no number.
TEST_P(DeviceCollectives, EveryOperatorOfEveryTypeGivesTheBitsOfTheHost) {
  Ranks host(GetParam().ranks, "host"), device = onDevice();
  for (int type = 0; type < ecclNumTypes; ++type) {
    for (int op = 0; op < ecclNumOps; ++op) {
      for (const size_t count : {size_t{61}, kSanitized ? size_t{2003} : size_t{20'011}}) {
        compare(host, device,
                {What::allReduce, static_cast<ecclDataType_t>(type), static_cast<ecclRedOp_t>(op), count, 0},
                false);
      }
      ASSERT_FALSE(HasFailure());
    }
  }
}

// More than a group of tiles: copies to and fro go on beside the lanes.
TEST_P(DeviceCollectives, LongOnesGoInGroupsOfTiles) {
  Ranks host(GetParam().ranks, "host"), device = onDevice();
  // Lanes on a GPU know no groups, and are slow where a sanitizer watches each of their threads.
  const size_t least = kSanitized && std::string(GetParam().kind) == "lanes" ? 1 : 16;
  for (const What what : kAll) {
    compare(host, device,
            {what, ecclFloat32, ecclSum, least * (3u << 16) / static_cast<size_t>(GetParam().ranks) + 13,
             GetParam().ranks - 1},
            false);
    if (HasFailure()) return;
  }
  compare(host, device, {What::allReduce, ecclFloat64, ecclAvg, least * (9 << 16) / 8 + 5, 0}, true);
}

class LaneBlocks : public test::CudaTest {};

// A block may have any number of threads.
TEST_F(LaneBlocks, OfAnySizeGiveTheBitsOfTheHost) {
  auto* const control = Cuda::get().control;
  if (control == nullptr) GTEST_SKIP() << "the number of threads of a GPU's blocks is fixed";
  const int before = control->blockThreads;
  for (const int threads : {1, 2, 5, 8}) {
    SCOPED_TRACE(threads);
    control->blockThreads = threads;
    Ranks host(2, "host"), device(2, "lanes");
    for (const What what : kAll) {
      for (const size_t count : {size_t{3}, size_t{1009}, kSanitized ? size_t{5003} : size_t{70'001}})
        compare(host, device, {what, ecclFloat32, ecclAvg, count, 1}, false);
      ASSERT_FALSE(HasFailure()) << nameOf(what);
    }
  }
  control->blockThreads = before;
}

INSTANTIATE_TEST_SUITE_P(Staged, DeviceCollectives,
                         ::testing::Values(Setup{1, "cuda", 1}, Setup{2, "cuda", 1}, Setup{4, "cuda", 1},
                                           Setup{8, "cuda", 1}));
INSTANTIATE_TEST_SUITE_P(Lanes, DeviceCollectives,
                         ::testing::Values(Setup{1, "lanes", 1}, Setup{2, "lanes", 1}, Setup{2, "lanes", 2},
                                           Setup{3, "lanes", 2}, Setup{4, "lanes", 1}, Setup{8, "lanes", 2}));

INSTANTIATE_TEST_SUITE_P(Relayed, DeviceCollectives,
                         ::testing::Values(Setup{2, "relayed", 1}, Setup{3, "relayed", 2},
                                           Setup{4, "relayed", 1}));

class LaneSchedules : public DeviceCollectives {};

// Each schedule gives the bits that it gives in host memory: short messages, long ones, and parts that do not
// divide evenly.
TEST_P(LaneSchedules, AllGiveTheBitsOfTheHost) {
  constexpr const char* kNames[] = {
      "AllReduce:ring",     "AllReduce:tree",       "AllReduce:recursive",     "AllReduce:direct",
      "AllReduce:oneshot",  "AllGather:ring",       "AllGather:recursive",     "AllGather:direct",
      "ReduceScatter:ring", "ReduceScatter:direct", "ReduceScatter:recursive", "Broadcast:chain",
      "Broadcast:tree",     "Broadcast:direct",     "Broadcast:split",         "Reduce:chain",
      "Reduce:tree",        "Reduce:direct",        "Gather:direct",           "Gather:tree",
      "Scatter:direct",     "Scatter:tree",         "AlltoAll:direct"};
  for (const std::string name : kNames) {
    for (const char* channels : {"1", "3"}) {
      if (kSanitized && channels[0] == '3') continue;
      setenv("ECCL_ALGO", name.c_str(), 1);
      setenv("ECCL_CHANNELS", channels, 1);
      Ranks host(GetParam().ranks, "host"), device = onDevice();
      unsetenv("ECCL_ALGO");
      unsetenv("ECCL_CHANNELS");
      for (const What what : kAll) {
        if (name.substr(0, name.find(':')) != nameOf(what)) continue;
        for (const size_t count : {3u, 1511u, kSanitized ? 20011u : 200003u}) {
          compare(host, device, {what, ecclFloat32, ecclAvg, count, GetParam().ranks - 1}, false);
          ASSERT_FALSE(HasFailure()) << name << ", " << channels << " channels";
        }
      }
    }
  }
}

// Calls of different types, several between the same ranks, and a copy to oneself.
TEST_P(DeviceCollectives, SeveralCallsInAGroup) {
  Ranks device = onDevice();
  const int ranks = device.size();
  device.each([&](int rank) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    const DeviceStream stream;
    const DeviceBuffer<int> whole(std::vector<int>(70001, rank + 1)), more(std::vector<int>(5, 2));
    const DeviceBuffer<float> real(std::vector<float>(999, 0.5f));
    const DeviceBuffer<int> out(std::vector<int>{10 * rank, 10 * rank + 1, 10 * rank + 2}),
        in(std::vector<int>(3, -1));
    ecclComm_t comm = device.comm(rank);
    ecclStream_t its = asStream(stream.native());
    for (int time = 0; time < 3; ++time) {
      ecclGroupStart();
      ecclAllReduce(more.data(), more.data(), 5, ecclInt32, ecclProd, comm, its);
      if (ranks > 1) {
        ecclSend(out.data(), 1, ecclInt32, next, comm, its);
        ecclSend(out.data() + 1, 1, ecclInt32, next, comm, its);
        ecclRecv(in.data(), 1, ecclInt32, before, comm, its);
        ecclRecv(in.data() + 1, 1, ecclInt32, before, comm, its);
      }
      ecclSend(out.data() + 2, 1, ecclInt32, rank, comm, its);
      ecclRecv(in.data() + 2, 1, ecclInt32, rank, comm, its);
      ecclAllReduce(real.data(), real.data(), 999, ecclFloat32, ecclMax, comm, its);
      ecclAllReduce(whole.data(), whole.data(), 70001, ecclInt32, ecclMax, comm, its);
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(comm);
    }
    stream.synchronize();
    int product = 2;
    for (int time = 0; time < 3; ++time) {
      int all = 1;
      for (int r = 0; r < ranks; ++r)
        all = static_cast<int>(static_cast<unsigned>(all) * static_cast<unsigned>(product));
      product = all;
    }
    EXPECT_EQ(more.read(), std::vector<int>(5, product));
    EXPECT_EQ(real.read(), std::vector<float>(999, 0.5f));
    EXPECT_EQ(whole.read(), std::vector<int>(70001, ranks));
    const int from = ranks > 1 ? 10 * before : -1;
    EXPECT_EQ(in.read(), (std::vector<int>{from, ranks > 1 ? from + 1 : -1, 10 * rank + 2}));
  });
}

INSTANTIATE_TEST_SUITE_P(, LaneSchedules,
                         ::testing::Values(Setup{1, "lanes", 1}, Setup{2, "lanes", 1}, Setup{2, "lanes", 2},
                                           Setup{3, "lanes", 2}, Setup{4, "lanes", 1}));

/// What is staged in every communicator.
class StagedCalls : public test::CudaTest, public ::testing::WithParamInterface<const char*> {};

// Blocks with gaps: what lies between them is not touched.
TEST_P(StagedCalls, BlocksOfDifferentLengthsLeaveTheGapsAlone) {
  Ranks ranks(2, GetParam());
  ranks.each([&](int rank) {
    const size_t counts[] = {3000, 500}, places[] = {700, 10};
    const std::vector<int> mine(counts[rank], rank + 1);
    const DeviceBuffer<int> send(mine), receive(std::vector<int>(4000, -7));
    const DeviceStream stream;
    EXPECT_EQ(ecclAllGatherv(send.data(), counts[rank], receive.data(), counts, places, ecclInt32,
                             ranks.comm(rank), asStream(stream.native())),
              ecclSuccess);
    stream.synchronize();
    std::vector<int> expected(4000, -7);
    for (int block : {0, 1})
      std::fill_n(expected.begin() + static_cast<long>(places[block]), counts[block], block + 1);
    EXPECT_EQ(receive.read(), expected);
  });
}

TEST_P(StagedCalls, AlltoAllvAndReduceScatterv) {
  Ranks ranks(2, GetParam());
  ranks.each([&](int rank) {
    const DeviceStream stream;
    const size_t out[2][2] = {{5, 70000}, {900, 1}}, sendAt[] = {0, 70000}, receiveAt[] = {3, 71000};
    const size_t in[] = {out[0][rank], out[1][rank]};
    std::vector<int> values(140000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i) * (rank + 1);
    const DeviceBuffer<int> send(values), receive(std::vector<int>(150000, -7));
    EXPECT_EQ(ecclAlltoAllv(send.data(), out[rank], sendAt, receive.data(), in, receiveAt, ecclInt32,
                            ranks.comm(rank), asStream(stream.native())),
              ecclSuccess)
        << ecclGetLastError(ranks.comm(rank));
    const DeviceBuffer<int> sum(std::vector<int>(100, 0));
    const size_t parts[] = {10, 60};
    EXPECT_EQ(ecclReduceScatterv(send.data(), sum.data(), parts, ecclInt32, ecclSum, ranks.comm(rank),
                                 asStream(stream.native())),
              ecclSuccess);
    stream.synchronize();
    std::vector<int> expected(150000, -7), sums(100, 0);
    for (size_t from : {0u, 1u})
      for (size_t i = 0; i < in[from]; ++i)
        expected[receiveAt[from] + i] = static_cast<int>((sendAt[rank] + i) * (from + 1));
    for (size_t i = 0; i < parts[rank]; ++i) sums[i] = static_cast<int>(i + (rank == 1 ? parts[0] : 0)) * 3;
    EXPECT_EQ(receive.read(), expected);
    EXPECT_EQ(sum.read(), sums);
  });
}

class Scalars : public StagedCalls {};

// The same bits as with a scalar that the call is given, which the host's kernels scale by.
TEST_P(Scalars, OfAllTypesMayBeInDeviceMemory) {
  Ranks host(2, "host"), device(2, GetParam());
  for (int type = 0; type < ecclNumTypes; ++type) {
    const auto its = static_cast<ecclDataType_t>(type);
    const size_t size = test::kSizes[type], count = 1000;
    std::vector<test::Bytes> results[2];
    for (auto* ranks : {&host, &device}) {
      const bool onHost = ranks == &host;
      results[onHost].resize(2);
      ranks->each([&](int rank) {
        std::mt19937 random(static_cast<unsigned>(type * 2 + rank));
        test::Bytes values(count * size), scalar(values.begin(), values.begin() + 8);
        for (unsigned char& each : values) each = static_cast<unsigned char>(random() % 64);
        for (size_t i = 0; i < size; ++i) scalar[i] = static_cast<unsigned char>(random() % 64);
        const ecclComm_t comm = ranks->comm(rank);
        ecclRedOp_t op;
        if (onHost) {
          ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, scalar.data(), its, ecclScalarHostImmediate, comm),
                    ecclSuccess);
          EXPECT_EQ(ecclAllReduce(values.data(), values.data(), count, its, op, comm, nullptr), ecclSuccess);
          results[onHost][static_cast<size_t>(rank)] = values;
          return;
        }
        const DeviceStream stream;
        // Wherever it lies.
        test::Bytes shifted(size + 3);
        std::copy_n(scalar.begin(), size, shifted.begin() + 3);
        const DeviceBuffer<unsigned char> data(values), factor(shifted);
        ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, factor.data() + 3, its, ecclScalarDevice, comm), ecclSuccess);
        EXPECT_EQ(ecclAllReduce(data.data(), data.data(), count, its, op, comm, asStream(stream.native())),
                  ecclSuccess)
            << ecclGetLastError(comm);
        stream.synchronize();
        results[onHost][static_cast<size_t>(rank)] = data.read();
      });
    }
    EXPECT_EQ(results[0], results[1]) << "type " << type;
  }
}

// It is read when the stream has come to the call. By lanes, that does not wait for it.
TEST_P(Scalars, AreReadInTheirTurn) {
  Ranks ranks(2, GetParam());
  const bool lanes = std::string_view(GetParam()) != "cuda";
  ranks.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<float> data(std::vector<float>(1000, 2)), scalar({0.f}),
        later({rank == 0 ? 10.f : 0.5f});
    test::HostWord held;
    if (lanes) held.heldBackBy(stream.native());
    Cuda::need(Cuda::get().cuMemcpyAsync(reinterpret_cast<test::Address>(scalar.data()),
                                         reinterpret_cast<test::Address>(later.data()), sizeof(float),
                                         stream.native()),
               "cuMemcpyAsync");
    ecclRedOp_t op;
    ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, scalar.data(), ecclFloat32, ecclScalarDevice, ranks.comm(rank)),
              ecclSuccess);
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), 1000, ecclFloat32, op, ranks.comm(rank),
                            asStream(stream.native())),
              ecclSuccess);
    if (lanes) held.release();
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(1000, 21));
  });
}

// A call of lanes is pending in the stream, where scalars are read by kernels. One that is staged has to read
// its own.
TEST(ScalarsOfTwo, AreReadAsTheirCommunicatorDoes) {
  Ranks lanes(2, "lanes"), staged(2, "cuda");
  lanes.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<float> data(std::vector<float>(100, 2)), scalar({rank == 0 ? 10.f : 0.5f});
    ecclRedOp_t op;
    ASSERT_EQ(ecclRedOpCreatePreMulSum(&op, scalar.data(), ecclFloat32, ecclScalarDevice, staged.comm(rank)),
              ecclSuccess);
    test::HostWord held;
    held.heldBackBy(stream.native());
    EXPECT_EQ(ecclBroadcast(data.data(), data.data(), 100, ecclFloat32, 0, lanes.comm(rank),
                            asStream(stream.native())),
              ecclSuccess);
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      held.release();
    });
    EXPECT_EQ(ecclAllReduce(data.data(), data.data(), 100, ecclFloat32, op, staged.comm(rank),
                            asStream(stream.native())),
              ecclSuccess);
    later.join();
    stream.synchronize();
    EXPECT_EQ(data.read(), std::vector<float>(100, 21));
  });
}

INSTANTIATE_TEST_SUITE_P(, Scalars, ::testing::Values("cuda", "lanes", "relayed"));
INSTANTIATE_TEST_SUITE_P(, StagedCalls, ::testing::Values("cuda", "lanes", "relayed"));

}  // namespace
}  // namespace eccl
