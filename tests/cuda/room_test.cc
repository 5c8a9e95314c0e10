// How many blocks of kernels are on a GPU at once: no more than it has room for.
#include <chrono>
#include <deque>

#include "cuda/ranks.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::Ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<int> copies(int value, size_t count) {
  return std::vector<int>(count, value);
}

// All blocks of a kernel wait for others: those that do not fit would keep the GPU waiting for ever.
TEST(CudaRoom, AGroupThatDoesNotFitIsToldHowMuchDoes) {
  if (!Cuda::get().emulated()) GTEST_SKIP() << "a GPU has room for more";
  constexpr int kRanks = 8;
  constexpr size_t kEach = 5000;
  Ranks ranks(kRanks, "lanes", 1);
  ranks.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> out(copies(rank, kEach)), in(copies(-1, kRanks * kEach));
    ecclGroupStart();
    for (int peer = 0; peer < kRanks; ++peer) {
      if (peer == rank) continue;
      ecclSend(out.data(), kEach, ecclInt32, peer, ranks.comm(rank), asStream(stream.native()));
      ecclRecv(in.data() + static_cast<size_t>(peer) * kEach, kEach, ecclInt32, peer, ranks.comm(rank),
               asStream(stream.native()));
    }
    EXPECT_NE(ecclGroupEnd(), ecclSuccess);
    // Whoever sees it first ends the calls of all.
    EXPECT_THAT(ecclGetLastError(ranks.comm(rank)),
                AllOf(HasSubstr("a group of 14 calls takes 14 blocks of"),
                      HasSubstr("has room for 3 at once: make smaller groups")));
    stream.synchronize();
    ranks.meet();
  });
}

TEST(CudaRoom, AGroupOfMoreCallsThanAKernelMakesIsToldHowManyItDoes) {
  if (!Cuda::get().emulated()) GTEST_SKIP() << "more ranks than a test should put on a GPU";
  setenv("ECCL_DEBUG", "NONE", 1);
  constexpr int kRanks = 18;
  Ranks ranks(kRanks, "lanes", 1);
  Cuda::get().use(0);
  const DeviceStream stream;
  const DeviceBuffer<int> out(copies(1, 8)), in(copies(-1, kRanks * 8));
  EXPECT_EQ(ecclGroupStart(), ecclSuccess);
  for (int peer = 1; peer < kRanks; ++peer) {
    ecclSend(out.data(), 8, ecclInt32, peer, ranks.comm(0), asStream(stream.native()));
    ecclRecv(in.data() + 8 * peer, 8, ecclInt32, peer, ranks.comm(0), asStream(stream.native()));
  }
  EXPECT_NE(ecclGroupEnd(), ecclSuccess);
  EXPECT_THAT(ecclGetLastError(ranks.comm(0)),
              AllOf(HasSubstr("a group has 34 calls that go on at once"),
                    HasSubstr("makes 32 at most: make smaller groups, or set ECCL_CUDA_LANES=0")));
  stream.synchronize();
}

/// Communicators of two ranks, and what kernels are given room for.
class CudaRooms : public ::testing::Test {
 protected:
  static constexpr size_t kLong = 1 << 18;
  explicit CudaRooms() { setenv("ECCL_DEBUG", "NONE", 1); }
  void make(int communicators, int devices) {
    for (int i = 0; i < communicators; ++i) all_.push_back(std::make_unique<Ranks>(2, "lanes", devices));
    if (Cuda::get().control != nullptr) Cuda::get().control->violations = 0;
  }
  /// No more blocks than a GPU has room for were asked for.
  void TearDown() override {
    if (Cuda::get().control != nullptr) { EXPECT_EQ(Cuda::get().control->violations.exchange(0), 0); }
  }
  ecclResult_t sum(Ranks& of, int rank, const DeviceBuffer<int>& data, size_t count,
                   const DeviceStream& stream) {
    return ecclAllReduce(data.data(), data.data(), count, ecclInt32, ecclSum, of.comm(rank),
                         asStream(stream.native()));
  }
  std::vector<std::unique_ptr<Ranks>> all_;
};

// As several kernels, in one order, whatever the order in the group. 33 short ones are more than a kernel
// makes.
TEST_F(CudaRooms, AGroupOfManyCommunicatorsIsMadeInSeveralKernels) {
  make(33, 2);
  for (const bool isLong : {true, false}) {
    const size_t communicators = isLong ? 5 : all_.size(), count = isLong ? kLong : 8;
    all_[0]->each([&](int rank) {
      const DeviceStream stream;
      std::deque<DeviceBuffer<int>> data;
      for (size_t i = 0; i < communicators; ++i) data.emplace_back(copies(static_cast<int>(i) + rank, count));
      EXPECT_EQ(ecclGroupStart(), ecclSuccess);
      for (size_t i = 0; i < communicators; ++i) {
        const size_t its = rank == 0 ? i : communicators - 1 - i;
        EXPECT_EQ(sum(*all_[its], rank, data[its], count, stream), ecclSuccess);
      }
      EXPECT_EQ(ecclGroupEnd(), ecclSuccess) << ecclGetLastError(nullptr);
      stream.synchronize();
      for (size_t i = 0; i < communicators; ++i)
        EXPECT_EQ(data[i].read(), copies(2 * static_cast<int>(i) + 1, count));
      all_[0]->meet();
    });
  }
}

// Two ranks on one GPU: each call takes half of the room, and the second of one rank must leave that to the
// other.
TEST_F(CudaRooms, LongCallsOfSeveralCommunicatorsFollowOneAnother) {
  make(3, 1);
  for (int time = 0; time < 3; ++time) {
    all_[0]->each([&](int rank) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::deque<DeviceStream> streams(all_.size());
      std::deque<DeviceBuffer<int>> data;
      for (size_t i = 0; i < all_.size(); ++i) data.emplace_back(copies(rank + 1, kLong));
      for (int call = 0; call < 3; ++call)
        for (size_t i = 0; i < all_.size(); ++i)
          EXPECT_EQ(sum(*all_[i], rank, data[i], kLong, streams[i]), ecclSuccess);
      for (size_t i = 0; i < all_.size(); ++i) {
        streams[i].synchronize();
        EXPECT_EQ(data[i].read(), copies(12, kLong));
      }
      all_[0]->meet();
    });
  }
}

// What is short has room beside the others, and does not wait for them.
TEST_F(CudaRooms, ShortCallsDoNotFollow) {
  make(2, 1);
  all_[0]->each([&](int rank) {
    const DeviceStream held, free;
    const DeviceBuffer<int> data[2] = {DeviceBuffer<int>(copies(1, 8)), DeviceBuffer<int>(copies(2, 8))};
    for (const auto& each : all_) {  // the first waits for the other rank in the host
      EXPECT_EQ(sum(*each, rank, data[1], 8, free), ecclSuccess);
      free.synchronize();
    }
    // The first of rank 0 waits for rank 1, which makes it last.
    if (rank == 0) { EXPECT_EQ(sum(*all_[0], 0, data[0], 8, held), ecclSuccess); }
    EXPECT_EQ(sum(*all_[1], rank, data[1], 8, free), ecclSuccess);
    free.synchronize();
    all_[0]->meet();
    if (rank == 1) { EXPECT_EQ(sum(*all_[0], 1, data[0], 8, held), ecclSuccess); }
    held.synchronize();
    EXPECT_EQ(data[0].read(), copies(2, 8));
    all_[0]->meet();
  });
}

}  // namespace
}  // namespace eccl
