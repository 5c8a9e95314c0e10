// Groups of Sends and Recvs that are made again and again: whoever is late, whatever memory they use, each
// message arrives, once and where it belongs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <vector>

#include "runtime/communicator/call_history.h"
#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

struct Message {
  int from, to;
  size_t count;
};

/// The same on all ranks: few shapes, so that most have been made before; now and then many to one peer, more
/// than a ring has slots, and series that differ in nothing but their buffers.
std::vector<Message> messagesOf(std::mt19937& random, int ranks, bool large) {
  const size_t counts[] = {1, 0, 10, 11, 1000, large ? size_t{50'000} : size_t{2000}};
  std::vector<Message> messages(random() % 3 == 0 ? 64 : random() % 8);
  for (Message& message : messages) {
    message.from = static_cast<int>(random() % static_cast<unsigned>(ranks));
    message.to = static_cast<int>(random() % static_cast<unsigned>(ranks - 1));
    message.to += message.to >= message.from;
    message.count = counts[random() % (messages.size() > 8 ? 5 : 6)];
  }
  for (size_t m = 1, alike = 0; m < messages.size(); ++m, --alike) {
    if (alike == 0) alike = 1 + random() % 48;
    if (alike > 1 && messages.size() > 8) messages[m] = messages[m - 1];
  }
  return messages;
}

int32_t valueOf(int round, size_t message, size_t element) {
  return static_cast<int32_t>(static_cast<size_t>(round) * 1'000'003 + message * 10'007 + element);
}

struct FastGroup {
  const char* transport;
  int ranks;
  bool shared;  // memory of ecclMemAlloc
  int streams;  // 0: the NULL stream
};

class FastGroups : public ::testing::TestWithParam<FastGroup> {};

TEST_P(FastGroups, BringEachMessageWhereItBelongs) {
  constexpr int kRounds = 150;
  const FastGroup& its = GetParam();
  const auto outcomes = test::runProcesses(its.ranks, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", its.transport, 1);
    ecclComm_t comm = test::join(rank, its.ranks, board, report);
    if (comm == nullptr) return 2;
    ecclStream_t streams[2] = {};
    for (int i = 0; i < its.streams; ++i) ecclStreamCreate(&streams[i]);
    constexpr size_t kElements = 400'000;
    void* memory[2] = {};
    for (void*& one : memory) {
      if (its.shared && ecclMemAlloc(&one, kElements * 4) != ecclSuccess) return 3;
      if (!its.shared) one = malloc(kElements * 4);
    }
    auto *const out = static_cast<int32_t*>(memory[0]), *const in = static_cast<int32_t*>(memory[1]);
    std::mt19937 random(7);
    for (int round = 0; round < kRounds; ++round) {
      const auto messages = messagesOf(random, its.ranks, true);
      std::memset(in, 0xff, kElements * 4);
      if (random() % static_cast<unsigned>(its.ranks) == static_cast<unsigned>(rank) && round % 4 == 0)
        usleep(3000);
      size_t sent = 0, received = 0;
      ecclGroupStart();
      for (size_t m = 0; m < messages.size(); ++m) {
        const Message& message = messages[m];
        ecclStream_t stream = its.streams == 0 ? nullptr : streams[m % static_cast<size_t>(its.streams)];
        if (message.from == rank) {
          for (size_t i = 0; i < message.count; ++i) out[sent + i] = valueOf(round, m, i);
          if (ecclSend(out + sent, message.count, ecclInt32, message.to, comm, stream) != ecclSuccess) return 4;
          sent += message.count;
        } else if (message.to == rank) {
          if (ecclRecv(in + received, message.count, ecclInt32, message.from, comm, stream) != ecclSuccess)
            return 5;
          received += message.count;
        }
      }
      if (ecclGroupEnd() != ecclSuccess) return report += ecclGetLastError(comm), 6;
      for (int i = 0; i < its.streams; ++i) {
        if (ecclStreamSynchronize(streams[i]) != ecclSuccess) return report += ecclGetLastError(comm), 7;
      }
      received = 0;
      for (size_t m = 0; m < messages.size(); ++m) {
        if (messages[m].to != rank) continue;
        for (size_t i = 0; i < messages[m].count; ++i, ++received) {
          if (in[received] == valueOf(round, m, i)) continue;
          report += "round " + std::to_string(round) + " message " + std::to_string(m) + " element " +
                    std::to_string(i) + " is " + std::to_string(in[received]);
          return 8;
        }
      }
      if (in[received] != -1) return 9;
    }
    return ecclCommDestroy(comm) == ecclSuccess ? 0 : 10;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended) << "hung";
    EXPECT_EQ(outcome.code, 0) << outcome.text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, FastGroups,
                         ::testing::Values(FastGroup{"shm", 2, false, 0}, FastGroup{"shm", 3, true, 0},
                                           FastGroup{"shm", 2, true, 1}, FastGroup{"shm", 4, false, 2},
                                           FastGroup{"tcp", 2, false, 0}, FastGroup{"tcp", 3, false, 2}),
                         [](const auto& info) {
                           const FastGroup& its = info.param;
                           return std::string(its.transport) + std::to_string(its.ranks) +
                                  (its.shared ? "Shared" : "Plain") + std::to_string(its.streams) + "Streams";
                         });

/// After calls that differ: 0 if this rank is told so, by `result` or at the latest by one call more.
int foundOut(ecclResult_t result, ecclComm_t comm, std::string& report) {
  float in = 0, out = 0;
  if (result == ecclSuccess) result = ecclAllReduce(&out, &in, 1, ecclFloat, ecclSum, comm, nullptr);
  report += ecclGetLastError(comm);
  ecclCommAbort(comm);
  return result == ecclInvalidUsage || result == ecclRemoteError ? 0 : 4;
}

void expectCallsDiffer(const std::vector<test::Outcome>& outcomes) {
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended) << "hung";
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("calls differ"));
  }
}

/// Both make groups of one Send and one Recv; in the end rank 1 receives more than rank 0 sends.
TEST(FastGroup, FindsCallsThatDiffer) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    float out[4] = {}, in[4] = {};
    ecclResult_t result = ecclSuccess;
    for (int i = 0; i < 12 && result == ecclSuccess; ++i) {
      ecclGroupStart();
      for (size_t count : {2, 3}) {  // both shapes have been made before
        ecclSend(out, count, ecclFloat, 1 - rank, comm, nullptr);
        ecclRecv(in, rank == 1 && i == 11 ? 5 - count : count, ecclFloat, 1 - rank, comm, nullptr);
      }
      result = ecclGroupEnd();
      if (i < 11 && result != ecclSuccess) return 3;
    }
    // Rank 0 has done what it has to before rank 1 looks.
    return foundOut(result, comm, report);
  });
  expectCallsDiffer(outcomes);
}

/// Both know series of 40. Then rank 1 receives as many, of which one in the middle is longer.
TEST(FastGroup, FindsTheCallThatDiffersInASeries) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    float data[40 * 3] = {};
    ecclResult_t result = ecclSuccess;
    const auto group = [&](int odd) {
      ecclGroupStart();
      for (int k = 0; k < 40; ++k) {
        const size_t count = k == odd ? 3 : 2;
        result = rank == 0 ? ecclSend(data + 3 * k, count, ecclFloat, 1, comm, nullptr)
                           : ecclRecv(data + 3 * k, count, ecclFloat, 0, comm, nullptr);
      }
      result = ecclGroupEnd();
    };
    for (int i = 0; i < 12 && result == ecclSuccess; ++i) group(i % 2 == 0 ? -1 : 25);
    if (result != ecclSuccess) return 3;
    group(rank == 0 ? -1 : 25);
    return foundOut(result, comm, report);
  });
  expectCallsDiffer(outcomes);
  for (const test::Outcome& outcome : outcomes)
    EXPECT_THAT(outcome.text, HasSubstr("number 505"));  // 12 groups of 40, and 25
}

/// What goes on between the calls of a series counts.
TEST(FastGroup, LooksWhetherHandlesStillStand) {
  ecclComm_t comms[2];
  ASSERT_EQ(ecclCommInitAll(comms, 2, nullptr), ecclSuccess);
  float data[3] = {};
  const auto send = [&](ecclStream_t stream) { return ecclSend(data, 1, ecclFloat, 1, comms[0], stream); };
  for (const bool another : {false, true}) {
    ecclStream_t stream = nullptr, other = nullptr;
    ASSERT_EQ(ecclStreamCreate(&stream), ecclSuccess);
    ASSERT_EQ(ecclStreamCreate(&other), ecclSuccess);
    ecclGroupStart();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(send(stream), ecclSuccess);
    // The end of another handle is no reason to refuse, that of this one is.
    ASSERT_EQ(ecclStreamDestroy(another ? other : stream), ecclSuccess);
    EXPECT_EQ(send(stream), another ? ecclSuccess : ecclInvalidArgument);
    EXPECT_EQ(ecclSend(nullptr, 1, ecclFloat, 1, comms[0], stream), ecclInvalidArgument);
    EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
    ASSERT_EQ(ecclStreamDestroy(another ? stream : other), ecclSuccess);
  }
  ecclGroupStart();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(send(nullptr), ecclSuccess);
  EXPECT_EQ(ecclCommAbort(comms[0]), ecclSuccess);
  EXPECT_EQ(send(nullptr), ecclInvalidArgument);
  EXPECT_EQ(ecclGroupEnd(), ecclInvalidArgument);
  EXPECT_EQ(ecclCommAbort(comms[1]), ecclSuccess);
}

/// A series gets the numbers that its calls would get one by one, and is compared call by call.
TEST(CallHistory, NumbersASeries) {
  const uint64_t shape = 77;
  const auto record = [&](uint64_t number, uint64_t itsShape) {
    CallRecord its;
    its.scope = 5;
    its.number(itsShape, number);
    return its;
  };
  CallHistory history;
  CallRecord mine = record(0, shape);
  EXPECT_FALSE(history.add(mine, shape, 3));
  EXPECT_EQ(mine.sequence, 0u);
  EXPECT_EQ(history.next(5), 3u);
  bool reached = false;
  for (uint64_t number : {0, 1, 2}) {
    EXPECT_FALSE(history.compare(1, record(number, shape), &reached));
    EXPECT_TRUE(reached);
    EXPECT_TRUE(history.compare(1, record(number, shape + 1), &reached));
  }
  // Others have told of what is to come: one of the same calls, two of others.
  EXPECT_FALSE(history.compare(1, record(3, shape), &reached));
  EXPECT_FALSE(reached);
  EXPECT_FALSE(history.compare(2, record(6, shape + 1), &reached));
  EXPECT_FALSE(history.compare(3, record(5, shape + 1), &reached));
  EXPECT_FALSE(history.compare(4, record(900, shape), &reached));
  const auto mismatch = history.add(mine, shape, 500);
  ASSERT_TRUE(mismatch);
  EXPECT_EQ(mine.sequence, 3u);
  EXPECT_EQ(mismatch->otherRank, 3);  // the first of the two
  EXPECT_EQ(mismatch->mine.sequence, 5u);
  EXPECT_EQ(mismatch->mine.signature, record(5, shape).signature);
  EXPECT_EQ(history.last(5)->sequence, 502u);
  EXPECT_TRUE(history.compare(1, record(502, shape + 1), &reached));
  EXPECT_FALSE(history.compare(1, record(100, shape + 1), &reached)) << "it is forgotten";
  EXPECT_TRUE(reached);
}

/// Rank 1 dies in the middle: what rank 0 waits for then, in a stream, is an error.
TEST(FastGroup, FindsThatThePeerIsDead) {
  const auto outcomes = test::runProcesses(2, [&](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    ecclStream_t stream = nullptr;
    ecclStreamCreate(&stream);
    float out[8] = {}, in[8] = {};
    ecclResult_t result = ecclSuccess;
    for (int i = 0; i < 20 && result == ecclSuccess; ++i) {
      if (rank == 1 && i == 10) raise(SIGKILL);
      ecclGroupStart();
      for (int k = 0; k < 8; ++k) {
        ecclSend(out + k, 1, ecclFloat, 1 - rank, comm, stream);
        ecclRecv(in + k, 1, ecclFloat, 1 - rank, comm, stream);
      }
      if (result = ecclGroupEnd(); result == ecclSuccess) result = ecclStreamSynchronize(stream);
    }
    report += ecclGetLastError(nullptr);
    ecclCommAbort(comm);
    return result == ecclRemoteError ? 0 : 3;
  });
  EXPECT_TRUE(outcomes[0].ended) << "hung";
  EXPECT_EQ(outcomes[0].code, 0) << outcomes[0].text;
  EXPECT_THAT(outcomes[0].text, HasSubstr("rank 1"));
}

}  // namespace
}  // namespace eccl::runtime
