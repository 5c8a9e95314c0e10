// eccl.hpp over the shared library as users get it: only what libeccl.so exports is in reach here.
#include <eccl/eccl.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using ::testing::Each;
using ::testing::HasSubstr;

static_assert(eccl::dataTypeOf<float>() == ecclFloat32 && eccl::dataTypeOf<double>() == ecclFloat64);
static_assert(eccl::dataTypeOf<int8_t>() == ecclInt8 && eccl::dataTypeOf<unsigned char>() == ecclUint8);
static_assert(eccl::dataTypeOf<long long>() == ecclInt64 && eccl::dataTypeOf<unsigned long>() == ecclUint64);
static_assert(!std::is_copy_constructible_v<eccl::Communicator> && !std::is_copy_constructible_v<eccl::Stream>);

/// Runs `rank(communicator)` for every rank of a new communicator, each in a thread of its own.
template <class Body>
void onEveryRank(int size, Body body) {
  const ecclUniqueId id = eccl::uniqueId();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        eccl::Communicator communicator(size, id, rank);
        body(communicator);
      } catch (const eccl::Error& error) { ADD_FAILURE() << "rank " << rank << ": " << error.what(); }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CppApi, ConnectionsAreListed) {
  onEveryRank(2, [](eccl::Communicator& comm) {
    std::vector<int> values(1000, 1);
    comm.allReduce(values.data(), values.data(), values.size());
    const std::vector<ecclConnectionInfo_t> infos = comm.connections();
    uint64_t messages[2] = {0, 0};  // received, sent
    for (const ecclConnectionInfo_t& info : infos) {
      if (info.peer < 0) continue;
      EXPECT_EQ(info.peer, 1 - comm.rank());
      messages[info.sends] += info.messages;
    }
    EXPECT_GT(messages[0], 0u);
    EXPECT_GT(messages[1], 0u);
    comm.barrier();
  });
}

TEST(CppApi, CollectivesDeliver) {
  onEveryRank(3, [](eccl::Communicator& comm) {
    const int rank = comm.rank(), size = comm.size();
    EXPECT_EQ(size, 3);
    std::vector<int> mine(6, rank + 1), sum(6), all(18), part(2);
    comm.allReduce(mine.data(), sum.data(), 6);
    EXPECT_THAT(sum, Each(6));
    comm.allReduce(mine.data(), sum.data(), 6, ecclMax);
    EXPECT_THAT(sum, Each(3));
    comm.allGather(mine.data(), all.data(), 6);
    for (int i = 0; i < 18; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i / 6 + 1);
    comm.reduceScatter(mine.data(), part.data(), 2);
    EXPECT_THAT(part, Each(6));
    comm.broadcast(mine.data(), 6, 2);
    EXPECT_THAT(mine, Each(3));
    std::vector<int> from(3);
    std::vector<int> to = {10 * rank, 10 * rank + 1, 10 * rank + 2};
    comm.allToAll(to.data(), from.data(), 1);
    EXPECT_THAT(from, ::testing::ElementsAre(rank, 10 + rank, 20 + rank));
    comm.barrier();
  });
}

TEST(CppApi, GroupsIssueSendsAndReceivesTogether) {
  onEveryRank(2, [](eccl::Communicator& comm) {
    const int peer = 1 - comm.rank();
    eccl::MemBuffer<float> out(100000), in(100000);
    std::iota(out.begin(), out.end(), static_cast<float>(comm.rank()));
    eccl::Stream stream;
    eccl::Group group;
    comm.send(out.data(), out.size(), peer, stream);
    comm.receive(in.data(), in.size(), peer, stream);
    group.end();
    stream.synchronize();
    EXPECT_TRUE(stream.done());
    EXPECT_EQ(in[0], static_cast<float>(peer));
    EXPECT_EQ(in[in.size() - 1], static_cast<float>(peer + 99999));
  });
}

TEST(CppApi, SplitGivesACommunicatorOrNothing) {
  onEveryRank(3, [](eccl::Communicator& comm) {
    const int rank = comm.rank();
    std::optional<eccl::Communicator> child = comm.split(rank == 2 ? ECCL_SPLIT_NOCOLOR : 0, -rank);
    ASSERT_EQ(child.has_value(), rank != 2);
    if (!child) return;
    EXPECT_EQ(child->size(), 2);
    EXPECT_EQ(child->rank(), 1 - rank) << "ordered by key";
    double sum = rank + 0.5;
    child->allReduce(&sum, &sum, 1);
    EXPECT_EQ(sum, 2.0);
  });
}

TEST(CppApi, InitAllMakesRanksOfThisProcess) {
  std::vector<eccl::Communicator> all = eccl::Communicator::initAll(4);
  ASSERT_EQ(all.size(), 4U);
  std::vector<int64_t> values = {1, 2, 3, 4};
  std::vector<eccl::Stream> streams(4);
  eccl::Group group;
  for (size_t i = 0; i < 4; ++i) all[i].allReduce(&values[i], &values[i], 1, ecclProd, streams[i]);
  group.end();
  for (eccl::Stream& stream : streams) stream.synchronize();
  EXPECT_THAT(values, Each(24));
  // Ranks of one thread can only leave together.
  eccl::Group leaving;
  for (eccl::Communicator& communicator : all) communicator.finalize();
  leaving.end();
}

TEST(CppApi, TheTopologyIsAText) {
  std::string text;
  onEveryRank(1, [&](eccl::Communicator& comm) {
    try {
      text = comm.topology();
    } catch (const eccl::Error& error) {
      EXPECT_EQ(error.code(), ecclInvalidUsage);
      EXPECT_THAT(error.what(), HasSubstr("JSON")) << "built without";
    }
  });
  if (text.empty()) GTEST_SKIP() << "built without nlohmann-json";
  EXPECT_EQ(text.front(), '{');
  EXPECT_THAT(text, ::testing::EndsWith("}\n"));
  EXPECT_EQ(text.find('\0'), text.npos);
}

TEST(CppApi, FailuresAreExceptionsWithTheLibrarysSentence) {
  onEveryRank(1, [](eccl::Communicator& comm) {
    try {
      float value = 0;
      comm.broadcast(&value, 1, 7);
      ADD_FAILURE() << "root 7 of 1 was accepted";
    } catch (const eccl::Error& error) {
      EXPECT_EQ(error.code(), ecclInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("7"));
    }
  });
  EXPECT_THROW(eccl::Communicator(0, eccl::uniqueId(), 0), eccl::Error);
  EXPECT_THROW(eccl::MemBuffer<double>(SIZE_MAX / 2), eccl::Error);
}

// A rank that leaves by an exception aborts, so that the other one is told instead of waiting for it.
TEST(CppApi, AnExceptionAbortsTheCommunicator) {
  const ecclUniqueId id = eccl::uniqueId();
  std::thread leaver([&] {
    try {
      eccl::Communicator communicator(2, id, 0);
      communicator.barrier();  // the other one is past its constructor
      throw std::logic_error("the application's own");
    } catch (const std::logic_error&) {}
  });
  try {
    eccl::Communicator communicator(2, id, 1);
    for (float value = 1;;) {
      communicator.barrier();
      communicator.allReduce(&value, &value, 1);
    }
  } catch (const eccl::Error& error) {
    EXPECT_EQ(error.code(), ecclRemoteError) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("rank 0"));
  }
  leaver.join();
}

}  // namespace
