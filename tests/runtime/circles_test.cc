// Calls that ranks have put into their streams in different orders, so that they wait for each other: everybody
// gets an error that names the calls, within seconds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "support/processes.h"

namespace eccl {
namespace {

using ::testing::HasSubstr;

/// A stall is looked at after 1.6 s, then after 3.2 s.
constexpr double kLimit = 8;

struct Rank {
  int rank, ranks;
  test::Board& board;
  std::vector<ecclComm_t> comms;
  std::vector<ecclStream_t> streams;
  std::vector<float> in = std::vector<float>(1 << 23, 1), out = std::vector<float>(1 << 23);

  ecclResult_t sum(size_t comm, size_t stream, size_t count = 1000) {
    return ecclAllReduce(in.data(), out.data() + (comm << 21), count, ecclFloat, ecclSum, comms[comm],
                         streams[stream]);
  }
};

/// Ranks with three communicators and three streams each. One that comes through ends with 0; one of which a
/// communicator fails with 1, and reports why.
std::vector<test::Outcome> run(int ranks, bool fails, const std::function<void(Rank&)>& body) {
  return test::runProcesses(ranks, [=](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    Rank mine{rank, ranks, board, {test::join(rank, ranks, board, report)}, {nullptr, nullptr, nullptr}};
    if (mine.comms[0] == nullptr) return 2;
    for (int copy = 0; copy < 2; ++copy)
      if (ecclCommSplit(mine.comms[0], 0, rank, &mine.comms.emplace_back(), nullptr) != ecclSuccess) return 3;
    for (ecclStream_t& stream : mine.streams) ecclStreamCreate(&stream);
    for (size_t comm = 0; comm < 3; ++comm) {
      if (mine.sum(comm, 0) != ecclSuccess) return 4;
    }
    ecclStreamSynchronize(mine.streams[0]);
    const double begin = test::now();
    body(mine);
    for (ecclStream_t stream : mine.streams) ecclStreamSynchronize(stream);
    // A rank that has got all data before the word of the failure ends its call well.
    bool ok = true;
    double took = 0;
    do {
      took = test::now() - begin;
      for (ecclComm_t comm : mine.comms) {
        ecclResult_t error = ecclSuccess;
        ecclCommGetAsyncError(comm, &error);
        ok &= error == ecclSuccess;
        if (error != ecclSuccess) report += ecclGetLastError(comm);
      }
      usleep(1000);
    } while (ok && fails && took <= kLimit);
    board.meet(7, ranks);  // nobody leaves while others wait
    for (ecclComm_t comm : mine.comms) ecclCommAbort(comm);
    if (took > kLimit) report += " [took " + std::to_string(took) + " s]";
    if (::testing::Test::HasFailure()) return 6;
    return took > kLimit ? 5 : ok ? 0 : 1;
  });
}

void expectCircle(const std::vector<test::Outcome>& outcomes, const std::vector<std::string>& texts) {
  std::string all;
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 1) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("calls wait for each other in a circle: rank "));
    all += outcome.text;
  }
  for (const std::string& text : texts) EXPECT_THAT(all, HasSubstr(text));
}

TEST(Circles, OfTwoCommunicatorsInOneStream) {
  expectCircle(run(2, true,
                   [](Rank& mine) {
                     mine.sum(mine.rank == 0 ? 0 : 1, 0, 100);
                     mine.sum(mine.rank == 0 ? 1 : 0, 0, 100);
                   }),
               {"AllReduce(count 100, float, sum) number 1 of communicator", "has put", "behind"});
}

TEST(Circles, OfThreeCommunicators) {
  expectCircle(run(3, true,
                   [](Rank& mine) {
                     for (size_t i = 0; i < 3; ++i) mine.sum((static_cast<size_t>(mine.rank) + i) % 3, 0, 100);
                   }),
               {});
}

TEST(Circles, OfThreeRanks) {
  expectCircle(
      run(3, true,
          [](Rank& mine) {
            ecclRecv(mine.out.data(), 1, ecclFloat, (mine.rank + 2) % 3, mine.comms[0], mine.streams[0]);
            ecclSend(mine.in.data(), 1, ecclFloat, (mine.rank + 1) % 3, mine.comms[0], mine.streams[0]);
          }),
      {"rank 0", "rank 1", "rank 2"});
}

TEST(Circles, OfOneRankAmongMany) {
  expectCircle(run(4, true,
                   [](Rank& mine) {
                     if (mine.rank == 2) mine.sum(1, 1, 1 << 20);
                     mine.sum(0, 1, 100);
                     if (mine.rank != 2) mine.sum(1, 1, 1 << 20);
                   }),
               {"rank 2"});
}

TEST(Circles, OfSendsInOneStream) {
  expectCircle(run(2, true,
                   [](Rank& mine) {
                     const int peer = 1 - mine.rank;
                     ecclSend(mine.in.data(), mine.in.size(), ecclFloat, peer, mine.comms[0], mine.streams[0]);
                     ecclRecv(mine.out.data(), mine.out.size(), ecclFloat, peer, mine.comms[0],
                              mine.streams[0]);
                   }),
               {"Send(count 8388608, float, to rank 1)", "Recv(count 8388608, float, from rank"});
}

/// The root of a broadcast waits for nobody in particular, those behind it for the root.
TEST(Circles, OfABroadcast) {
  expectCircle(run(3, true,
                   [](Rank& mine) {
                     const auto broadcast = [&] {
                       ecclBroadcast(mine.in.data(), mine.out.data(), 1000, ecclFloat, 0, mine.comms[0],
                                     mine.streams[0]);
                     };
                     if (mine.rank != 0) broadcast();
                     mine.sum(1, 0, 100);
                     if (mine.rank == 0) broadcast();
                   }),
               {"rank 0", "Broadcast(count 1000, float, root 0)"});
}

void expectNone(const std::vector<test::Outcome>& outcomes) {
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

TEST(Circles, NoneWhereARankIsLate) {
  expectNone(run(3, false, [](Rank& mine) {
    if (mine.rank == 1) usleep(4500000);
    for (size_t comm = 0; comm < 3; ++comm) mine.sum(comm, comm % 2);
  }));
}

/// One communicator more, of the ranks before that one.
void addCommOfRanksBefore(int rank, Rank& mine) {
  ecclComm_t made = nullptr;
  EXPECT_EQ(ecclCommSplit(mine.comms[0], mine.rank < rank ? 0 : ECCL_SPLIT_NOCOLOR, mine.rank, &made, nullptr),
            ecclSuccess);
  if (made != nullptr) mine.comms.push_back(made);
}

/// An empty call is over when the calls before it are: it needs nobody's part.
TEST(Circles, NoneWhereACallIsEmpty) {
  expectNone(run(3, false, [](Rank& mine) {
    addCommOfRanksBefore(2, mine);
    if (mine.rank == 2) usleep(4500000);
    mine.sum(0, 0);
    if (mine.rank == 1) mine.sum(3, 1);
    mine.sum(0, 1, 0);
    if (mine.rank == 0) mine.sum(3, 1);
  }));
}

/// The same for callers that wait: rank 0 in an empty call behind another one, rank 1 for a Send that comes
/// late.
TEST(Circles, NoneWhereAnEmptyCallBlocks) {
  expectNone(run(2, false, [](Rank& mine) {
    const ecclComm_t comm = mine.comms[0];
    const auto both = [&] {
      mine.sum(0, 0);
      EXPECT_EQ(ecclAllReduce(mine.in.data(), mine.out.data(), 0, ecclFloat, ecclSum, comm, nullptr),
                ecclSuccess);
    };
    std::vector<float> word(1);
    std::thread other([&] {
      usleep(mine.rank == 0 ? 2000000 : 3000000);
      if (mine.rank == 0) {
        EXPECT_EQ(ecclSend(word.data(), 1, ecclFloat, 1, comm, nullptr), ecclSuccess);
      } else {
        both();
      }
    });
    if (mine.rank == 0) {
      both();
    } else {
      EXPECT_EQ(ecclRecv(word.data(), 1, ecclFloat, 0, comm, nullptr), ecclSuccess);
    }
    other.join();
  }));
}

/// A Send that has no room waits for the Recvs of those before it: then its message is left with the receiver.
TEST(Circles, NoneWhereASendWaitsForEarlierOnes) {
  setenv("ECCL_SLOTS", "4", 1);
  setenv("ECCL_SINGLE_COPY", "0", 1);
  const auto outcomes = run(3, false, [](Rank& mine) {
    constexpr size_t kCount = 20000;  // one long message
    addCommOfRanksBefore(2, mine);
    const auto send = [&] { ecclSend(mine.in.data(), kCount, ecclFloat, 1, mine.comms[0], mine.streams[0]); };
    const auto receive = [&](size_t stream) {
      ecclRecv(mine.out.data() + stream * kCount, kCount, ecclFloat, 0, mine.comms[0], mine.streams[stream]);
    };
    for (int call = 0; call < 4; ++call) {
      if (mine.rank == 0) send();
      if (mine.rank == 1 && call == 0) mine.sum(1, 1);
      if (mine.rank == 1) receive(1);
    }
    if (mine.rank == 1) mine.sum(3, 2);
    if (mine.rank == 1) receive(2);
    if (mine.rank == 0) send();
    if (mine.rank == 0) mine.sum(3, 0);
    if (mine.rank == 2) usleep(4500000);
    if (mine.rank != 1) mine.sum(1, 1);
  });
  unsetenv("ECCL_SLOTS");
  unsetenv("ECCL_SINGLE_COPY");
  expectNone(outcomes);
}

/// Many calls are behind others then; but one rank, which comes late, has its calls in streams of their own.
TEST(Circles, NoneWhereARankHasStreamsOfTheirOwn) {
  expectNone(run(3, false, [](Rank& mine) {
    const auto rank = static_cast<size_t>(mine.rank);
    if (mine.rank == 2) usleep(4500000);
    mine.sum(0, mine.rank == 2 ? 0 : rank);
    mine.sum(1, mine.rank == 2 ? 1 : rank);
    mine.sum(2, mine.rank == 2 ? 2 : rank);
  }));
}

/// The same calls in opposite orders, each communicator's in a stream of its own.
TEST(Circles, NoneWhereOrdersDifferAndStreamsToo) {
  expectNone(run(2, false, [](Rank& mine) {
    for (size_t i = 0; i < 3; ++i) {
      const size_t comm = mine.rank == 0 ? i : 2 - i;
      mine.sum(comm, comm);
      usleep(1200000);
    }
  }));
}

}  // namespace
}  // namespace eccl
