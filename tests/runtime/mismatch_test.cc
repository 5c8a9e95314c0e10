// Ranks that make different calls: everybody gets an error that names the ranks and the two calls.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

constexpr int kCallers = 3;
/// The limit, from the call to the error. Sanitizers and a loaded machine get no more.
constexpr double kLimit = 1.0;

using CallFunction = std::function<ecclResult_t(ecclComm_t, float*, float*)>;

struct Difference {
  const char* name;
  CallFunction usual, odd;  // of ranks 0 and 1; of rank 2
  const char* usualText;
  const char* oddText;
};

std::ostream& operator<<(std::ostream& out, const Difference& d) {
  return out << d.name;
}

class MismatchTiming : public ::testing::TestWithParam<std::tuple<const char*, Difference>> {};

TEST_P(MismatchTiming, EveryRankLearnsWhoCalledWhat) {
  const auto& [transport, difference] = GetParam();
  auto outcomes = test::runProcesses(kCallers, [&, transport = transport, &difference = difference](
                                                   int rank, test::Board& board, std::string& report) {
    setenv("ECCL_TRANSPORT", transport, 1);
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, kCallers, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> in(4096, 1), out(4096);
    // Calls that fit first: connections exist, so that what is measured is the detection; and calls like those
    // before go the short way.
    for (int i = 0; i < 3; ++i) {
      if (ecclAllReduce(in.data(), out.data(), 1024, ecclFloat, ecclSum, comm, nullptr) != ecclSuccess)
        return 3;
    }
    board.meet(0, kCallers);
    double begin = test::now();
    ecclResult_t result = (rank == 2 ? difference.odd : difference.usual)(comm, in.data(), out.data());
    // A rank whose call could complete gets the error on its next call.
    if (result == ecclSuccess) {
      usleep(300000);
      result = ecclBarrier(comm, nullptr);
    }
    double took = test::now() - begin;
    report += ecclGetLastError(comm);
    ecclCommAbort(comm);
    if (result != ecclInvalidUsage) return 4;
    if (took > kLimit) report += " [took " + std::to_string(took) + " s]";
    return took > kLimit ? 5 : 0;
  });
  for (int rank = 0; rank < kCallers; ++rank) {
    const test::Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.ended) << "rank " << rank << " hung";
    EXPECT_EQ(outcome.code, 0) << "rank " << rank << ": " << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("calls differ"));
    EXPECT_THAT(outcome.text, HasSubstr(difference.usualText));
    EXPECT_THAT(outcome.text, HasSubstr(difference.oddText));
    EXPECT_THAT(outcome.text, HasSubstr("rank 2"));
  }
}

CallFunction allReduce(size_t count, ecclDataType_t type, ecclRedOp_t op) {
  return [=](ecclComm_t comm, float* in, float* out) {
    return ecclAllReduce(in, out, count, type, op, comm, nullptr);
  };
}
CallFunction broadcast(int root) {
  return [=](ecclComm_t comm, float* in, float* out) {
    return ecclBroadcast(in, out, 1024, ecclFloat, root, comm, nullptr);
  };
}

const Difference kDifferences[] = {
    {"Count", allReduce(1024, ecclFloat, ecclSum), allReduce(2048, ecclFloat, ecclSum),
     "AllReduce(count 1024, float, sum)", "AllReduce(count 2048, float, sum)"},
    {"SmallCount", allReduce(1024, ecclFloat, ecclSum), allReduce(1, ecclFloat, ecclSum),
     "AllReduce(count 1024, float, sum)", "AllReduce(count 1, float, sum)"},
    {"NoCount", allReduce(1024, ecclFloat, ecclSum), allReduce(0, ecclFloat, ecclSum),
     "AllReduce(count 1024, float, sum)", "AllReduce(count 0, float, sum)"},
    {"Type", allReduce(1024, ecclFloat, ecclSum), allReduce(1024, ecclInt32, ecclSum),
     "AllReduce(count 1024, float, sum)", "AllReduce(count 1024, int32, sum)"},
    {"Operation", allReduce(1024, ecclFloat, ecclSum), allReduce(1024, ecclFloat, ecclMax),
     "AllReduce(count 1024, float, sum)", "AllReduce(count 1024, float, max)"},
    {"Root", broadcast(0), broadcast(1), "Broadcast(count 1024, float, root 0)",
     "Broadcast(count 1024, float, root 1)"},
    {"Collective", allReduce(1024, ecclFloat, ecclSum),
     [](ecclComm_t comm, float* in, float* out) {
       return ecclAllGather(in, out, 1024, ecclFloat, comm, nullptr);
     },
     "AllReduce(count 1024, float, sum)", "AllGather(count 1024, float)"},
    {"CollectiveAndRecv", allReduce(1024, ecclFloat, ecclSum),
     [](ecclComm_t comm, float*, float* out) { return ecclRecv(out, 1024, ecclFloat, 0, comm, nullptr); },
     "AllReduce(count 1024, float, sum)", "Recv(count 1024, float, from rank 0)"},
};

INSTANTIATE_TEST_SUITE_P(Calls, MismatchTiming,
                         ::testing::Combine(::testing::Values("thread,shm", "tcp"),
                                            ::testing::ValuesIn(kDifferences)),
                         [](const auto& info) {
                           return std::string(std::get<1>(info.param).name) +
                                  (std::string(std::get<0>(info.param)) == "tcp" ? "Tcp" : "Shm");
                         });

TEST(SendRecvMismatch, BothEndsLearnOfDifferentCounts) {
  auto outcomes = test::runProcesses(2, [](int rank, test::Board& board, std::string& report) {
    setenv("ECCL_DEBUG", "NONE", 1);
    ecclComm_t comm = test::join(rank, 2, board, report);
    if (comm == nullptr) return 2;
    std::vector<float> data(100);
    ecclResult_t result = rank == 0 ? ecclSend(data.data(), 100, ecclFloat, 1, comm, nullptr)
                                    : ecclRecv(data.data(), 50, ecclFloat, 0, comm, nullptr);
    if (result == ecclSuccess) {
      usleep(500000);
      result = ecclBarrier(comm, nullptr);
    }
    report += ecclGetLastError(comm);
    ecclCommAbort(comm);
    return result == ecclInvalidUsage ? 0 : 4;
  });
  for (const test::Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ended);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("Send(count 100, float, to rank 1)"));
    EXPECT_THAT(outcome.text, HasSubstr("Recv(count 50, float, from rank 0)"));
  }
}

}  // namespace
}  // namespace eccl::runtime
