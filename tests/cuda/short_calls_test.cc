// Short calls by lanes: room in the rings is all that they wait for before they begin, and the threads of a
// block meet when they begin and when they end, however many moves there are.
#include <barrier>
#include <chrono>
#include <utility>

#include "cuda/ranks.h"

namespace eccl {
namespace {

using test::asStream;
using test::Cuda;
using test::DeviceBuffer;
using test::DeviceStream;
using test::HostWord;
using test::Ranks;

constexpr int kCalls = 10, kEach = 5;

/// At how many barriers the blocks of kCalls calls have met, of all ranks.
int64_t barriersOf(Ranks& ranks, size_t count) {
  int64_t met = 0;
  for (int calls : {1, kCalls}) {  // the first makes the rings
    const int64_t before = Cuda::get().control->barriers;
    ranks.each([&](int rank) {
      const DeviceStream stream;
      const DeviceBuffer<float> data(std::vector<float>(count, 1));
      for (int i = 0; i < calls; ++i)
        EXPECT_EQ(ecclAllReduce(data.data(), data.data(), count, ecclFloat32, ecclSum, ranks.comm(rank),
                                asStream(stream.native())),
                  ecclSuccess);
      stream.synchronize();
    });
    met = Cuda::get().control->barriers - before;
  }
  return met;
}

class ShortCalls : public test::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!Cuda::get().emulated()) GTEST_SKIP() << "a real GPU does not count barriers";
  }
};

TEST_F(ShortCalls, MeetFiveTimes) {
  Ranks ranks(2, "lanes");
  EXPECT_EQ(barriersOf(ranks, 2), 2 * kEach * kCalls);
  EXPECT_EQ(barriersOf(ranks, 1024), 2 * kEach * kCalls);  // 4 KiB, as much as lines take of one block
  EXPECT_GT(barriersOf(ranks, 1024 + 1), 2 * kEach * kCalls);
}

// Each of the two ranks has 24 blocks, and no schedule for two has more than four lanes: half are for three
// strips.
TEST_F(ShortCalls, HaveSeveralBlocksWhereAThreadWouldHaveMoreThanALine) {
  setenv("ECCL_ALGO", "AllReduce:oneshot", 1);
  Ranks ranks(2, "lanes", 2);
  unsetenv("ECCL_ALGO");
  for (const int blocks : {1, 2, 3})
    EXPECT_EQ(barriersOf(ranks, static_cast<size_t>(blocks) * 512), 2 * blocks * kEach * kCalls) << blocks;
  // What is longer goes by slots, and not by lines of a fourth block. There blocks meet whenever they look, so
  // the number differs from time to time; 200 is the least.
  bool byLines = true;
  for (int time = 0; time < 5; ++time) byLines &= barriersOf(ranks, 3 * 512 + 1) == 2 * 4 * kEach * kCalls;
  EXPECT_FALSE(byLines);
}

// A ring has more messages in a call than a connection has slots: its blocks go the way of long calls.
TEST_F(ShortCalls, HaveNoMoreMessagesThanThereAreSlots) {
  setenv("ECCL_ALGO", "AllReduce:ring", 1);
  Ranks three(3, "lanes"), four(4, "lanes");
  unsetenv("ECCL_ALGO");
  EXPECT_EQ(barriersOf(three, 12), 3 * kEach * kCalls);
  EXPECT_GT(barriersOf(four, 12), 4 * kEach * kCalls);
}

// Flags of lines come again after 2^31 messages, whose numbers are skipped here, but for those near each wrap.
// What an old line holds is never taken for a new message: rank 0 looks long before rank 1 has sent one. The
// last calls of every other round leave lines that nobody writes to until messages with their flags come there.
TEST_F(ShortCalls, NeverTakeAnOldLineForANewOne) {
  Ranks ranks(2, "lanes");
  std::barrier together(2);
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    ranks.each([&](int rank) {
      const DeviceStream stream;
      for (int call = 0; call < 12; ++call) {
        const size_t count = round % 2 == 0 && call >= 8 ? 1024 : 1;
        const int mine = 1000 * round + 10 * call + rank;
        const DeviceBuffer<int> data(std::vector<int>(count, mine));
        together.arrive_and_wait();
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        EXPECT_EQ(ecclAllReduce(data.data(), data.data(), count, ecclInt32, ecclSum, ranks.comm(rank),
                                asStream(stream.native())),
                  ecclSuccess);
        stream.synchronize();
        EXPECT_EQ(data.read(), std::vector<int>(count, 2 * mine + (rank == 0 ? 1 : -1)))
            << "round " << round << ", call " << call;
        together.arrive_and_wait();  // to free memory waits for all streams
      }
    });
    ++Cuda::get().control->advances;
  }
}

class ShortCallsInARow : public test::CudaTest {
 protected:
  static constexpr int kCalls = 20;
  Ranks ranks_{2, "lanes"};

  /// A Broadcast of one number from rank 0.
  ecclResult_t broadcast(int rank, const DeviceBuffer<int>& data, size_t at, const DeviceStream& stream) {
    return ecclBroadcast(data.data() + at, data.data() + at, 1, ecclInt32, 0, ranks_.comm(rank),
                         asStream(stream.native()));
  }
};

// Nothing but room in the rings holds the root back.
TEST_F(ShortCallsInARow, WaitForRoom) {
  HostWord held;
  std::atomic<int> made{0};
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    std::vector<int> numbers(kCalls);
    for (int i = 0; i < kCalls; ++i) numbers[static_cast<size_t>(i)] = rank == 0 ? i + 1 : 0;
    const DeviceBuffer<int> data(numbers);
    EXPECT_EQ(broadcast(rank, data, 0, stream), ecclSuccess);
    stream.synchronize();
    if (rank == 1) held.heldBackBy(stream.native());
    for (size_t i = 1; i < kCalls; ++i) EXPECT_EQ(broadcast(rank, data, i, stream), ecclSuccess);
    for (++made; made < 2;) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the root goes as far as there is room
    if (rank == 1) held.release();
    stream.synchronize();
    for (int i = 0; i < kCalls; ++i) EXPECT_EQ(data.read()[static_cast<size_t>(i)], i + 1);
    for (++made; made < 4;) std::this_thread::yield();  // to free memory waits for all streams
  });
}

TEST_F(ShortCallsInARow, EndByAnAbortWhileTheyWaitForRoom) {
  std::barrier both(2);
  ranks_.each([&](int rank) {
    const DeviceStream stream;
    const DeviceBuffer<int> data(std::vector<int>(kCalls, 1));
    EXPECT_EQ(broadcast(rank, data, 0, stream), ecclSuccess);
    stream.synchronize();
    if (rank == 1) return both.arrive_and_wait();  // to free memory waits for all streams
    for (size_t i = 1; i < kCalls; ++i) EXPECT_EQ(broadcast(rank, data, i, stream), ecclSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(ecclCommAbort(std::exchange(ranks_.comm(rank), nullptr)), ecclSuccess);
    stream.synchronize();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
    both.arrive_and_wait();
  });
}

}  // namespace
}  // namespace eccl
