// ECCL_ENCRYPT: what ranks send each other over TCP is readable by nobody, and everything else is as without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/communicator/communicator.h"
#include "support/forwarding_system.h"
#include "support/processes.h"

namespace eccl::runtime {
namespace {

using ::testing::HasSubstr;

class Encryption : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto tls = transport::tlsLibrary(); !tls.ok()) GTEST_SKIP() << tls.status().message();
  }
};

/// Writes down all that is sent.
class Tapped final : public test::ForwardingSystem {
 public:
  Tapped() : ForwardingSystem(System::real()) {}
  ssize_t sendmsg(int fd, const msghdr* message) override {
    const ssize_t sent = ForwardingSystem::sendmsg(fd, message);
    std::lock_guard lock(mutex_);
    auto left = static_cast<size_t>(std::max<ssize_t>(0, sent));
    for (size_t i = 0; i < message->msg_iovlen && left > 0; ++i) {
      const size_t here = std::min(left, message->msg_iov[i].iov_len);
      seen.append(static_cast<const char*>(message->msg_iov[i].iov_base), here);
      left -= here;
    }
    return sent;
  }
  std::string seen;

 private:
  std::mutex mutex_;
};

/// All that two ranks send: to meet, to agree, a long and a short AllReduce, the same in a child.
std::string everythingSent(bool encrypts, const std::string& marker) {
  constexpr int kRanks = 2;
  Tapped system;
  transport::UniqueId id = transport::UniqueId::random(system);
  id.secret.encrypts = encrypts;
  transport::Rendezvous::Options options;
  options.system = &system;
  auto root = transport::Rendezvous::start(&id, options);
  EXPECT_TRUE(root.ok());
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      CommunicatorOptions mine;
      mine.system = &system;
      mine.settings.transport = "tcp";
      mine.settings.speedsFile = "none";
      mine.settings.encrypt = encrypts;
      mine.settings.socketsPerRail = 2;
      const auto parent = std::make_shared<Communicator>(mine);
      const auto child = std::make_shared<Communicator>(mine);
      EXPECT_TRUE(parent->join(id, rank, kRanks).ok());
      EXPECT_TRUE(child->split(*parent, parent->beginSplit(), 0, rank).ok());
      for (Communicator* each : {parent.get(), child.get()}) {
        for (const size_t copies : {size_t{1}, size_t{100'000}}) {
          std::string in;
          for (size_t i = 0; i < copies; ++i) in += marker;
          std::string out(in.size(), '\0');
          Call call;
          call.send = in.data();
          call.receive = out.data();
          call.count = in.size();
          call.type = DataType::uint8;
          call.op = RedOp::max;
          EXPECT_TRUE(each->execute(std::move(call)).ok());
          EXPECT_EQ(out, in);
        }
        EXPECT_TRUE(each->finalize().ok());
      }
      EXPECT_TRUE(child->destroy().ok());
      EXPECT_TRUE(parent->destroy().ok());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  (*root)->stop();
  return system.seen;
}

TEST_F(Encryption, NothingOfTheDataCanBeRead) {
  const std::string marker = "data of the ranks";
  for (const bool encrypts : {false, true}) {
    const std::string seen = everythingSent(encrypts, marker);
    EXPECT_GT(seen.size(), 4 * 100'000 * marker.size()) << "the tap sees all";
    EXPECT_EQ(seen.find(marker) == std::string::npos, encrypts);
    EXPECT_EQ(seen.find("ECCL_SLOTS") == std::string::npos, encrypts) << "what the control tree carries";
  }
}

void encrypted() {
  setenv("ECCL_TRANSPORT", "tcp", 1);
  setenv("ECCL_ENCRYPT", "1", 1);
  setenv("ECCL_DEBUG", "NONE", 1);
}

/// Every collective, checked. 0, or which was wrong.
int allCollectives(ecclComm_t comm, int rank, int ranks, size_t count) {
  const auto n = static_cast<size_t>(ranks);
  std::vector<int> one(count, rank + 1), all(n * count), out(n * count);
  const auto is = [&](size_t at, size_t length, int value) {
    return std::all_of(out.begin() + static_cast<long>(at), out.begin() + static_cast<long>(at + length),
                       [&](int each) { return each == value; });
  };
  const int sum = ranks * (ranks + 1) / 2;
  for (size_t i = 0; i < all.size(); ++i) all[i] = rank + 1;
  if (ecclAllReduce(one.data(), out.data(), count, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess ||
      !is(0, count, sum))
    return 1;
  if (ecclAllGather(one.data(), out.data(), count, ecclInt32, comm, nullptr) != ecclSuccess ||
      !is((n - 1) * count, count, ranks) || !is(0, count, 1))
    return 2;
  if (ecclReduceScatter(all.data(), out.data(), count, ecclInt32, ecclSum, comm, nullptr) != ecclSuccess ||
      !is(0, count, sum))
    return 3;
  if (ecclBroadcast(one.data(), out.data(), count, ecclInt32, 1, comm, nullptr) != ecclSuccess ||
      !is(0, count, 2))
    return 4;
  if (ecclReduce(one.data(), out.data(), count, ecclInt32, ecclSum, 1, comm, nullptr) != ecclSuccess ||
      (rank == 1 && !is(0, count, sum)))
    return 5;
  if (ecclAlltoAll(all.data(), out.data(), count, ecclInt32, comm, nullptr) != ecclSuccess ||
      !is((n - 1) * count, count, ranks))
    return 6;
  if (ecclGather(one.data(), out.data(), count, ecclInt32, 0, comm, nullptr) != ecclSuccess ||
      (rank == 0 && !is((n - 1) * count, count, ranks)))
    return 7;
  if (ecclScatter(all.data(), out.data(), count, ecclInt32, 0, comm, nullptr) != ecclSuccess ||
      !is(0, count, 1))
    return 8;
  if (ecclBarrier(comm, nullptr) != ecclSuccess) return 9;
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  ecclGroupStart();
  ecclSend(one.data(), count, ecclInt32, to, comm, nullptr);
  ecclRecv(out.data(), count, ecclInt32, from, comm, nullptr);
  if (ecclGroupEnd() != ecclSuccess || !is(0, count, from + 1)) return 10;
  return 0;
}

TEST_F(Encryption, EveryCollectiveWorksAlsoInChildren) {
  constexpr int kRanks = 3;
  for (const char* sockets : {"1", "3"}) {
    test::expectAllSucceeded(test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
      encrypted();
      setenv("ECCL_SOCKETS_PER_RAIL", sockets, 1);
      ecclComm_t comm = test::join(rank, kRanks, board, report), child = nullptr;
      if (comm == nullptr) return 2;
      if (ecclCommSplit(comm, 0, -rank, &child, nullptr) != ecclSuccess) return 3;
      for (const size_t count : {size_t{1}, size_t{3000}, size_t{300'000}}) {
        if (const int wrong = allCollectives(comm, rank, kRanks, count); wrong != 0) return 10 + wrong;
        if (const int wrong = allCollectives(child, kRanks - 1 - rank, kRanks, count); wrong != 0)
          return 30 + wrong;
      }
      if (ecclCommDestroy(child) == ecclSuccess && ecclCommDestroy(comm) == ecclSuccess) return 0;
      report += ecclGetLastError(nullptr);
      return 4;
    }));
  }
}

// All ranks say who differs, also those who agree with the root, and long before the limit of init.
TEST_F(Encryption, ARankThatDiffersIsNamedByAll) {
  constexpr int kRanks = 3;
  for (const bool rootEncrypts : {false, true}) {
    const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
      encrypted();
      setenv("ECCL_ENCRYPT", (rank == 2) != rootEncrypts ? "1" : "0", 1);
      const double begun = test::now();
      if (test::join(rank, kRanks, board, report) != nullptr) return 2;
      const bool soon = test::now() - begun < 60;
      board.meet(0, kRanks);  // the root is in rank 0's process, for those who come late
      return soon ? 0 : 3;
    });
    test::expectAllSucceeded(outcomes);
    for (const test::Outcome& outcome : outcomes) {
      EXPECT_THAT(outcome.text, HasSubstr("rank 2"));
      EXPECT_THAT(outcome.text, HasSubstr("ECCL_ENCRYPT=1"));
    }
    EXPECT_THAT(outcomes[0].text, HasSubstr(rootEncrypts ? "does not encrypt" : " encrypts (ECCL_ENCRYPT=1)"));
    EXPECT_THAT(outcomes[2].text, HasSubstr(rootEncrypts ? " encrypts (ECCL_ENCRYPT=1)" : "does not encrypt"));
  }
}

/// Reduces, encrypted, until a call fails; the error goes into the report. Rank 1 calls `leave` instead in the
/// sixth round.
ecclResult_t reduceUntilOneLeaves(int rank, int ranks, test::Board& board, std::string& report,
                                  const std::function<ecclResult_t(ecclComm_t)>& leave) {
  encrypted();
  ecclComm_t comm = test::join(rank, ranks, board, report);
  if (comm == nullptr) return ecclInternalError;
  std::vector<float> in(1 << 20, 1), out(1 << 20);
  for (int round = 0;; ++round) {
    if (rank == 1 && round == 5) return leave(comm);
    const ecclResult_t result =
        ecclAllReduce(in.data(), out.data(), in.size(), ecclFloat, ecclSum, comm, nullptr);
    if (result == ecclSuccess) continue;
    report += ecclGetLastError(comm);
    ecclCommAbort(comm);
    return result;
  }
}

TEST_F(Encryption, ARankThatDiesIsNamed) {
  constexpr int kRanks = 3;
  const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
    const auto die = [](ecclComm_t) { return raise(SIGKILL), ecclSuccess; };
    return reduceUntilOneLeaves(rank, kRanks, board, report, die) == ecclRemoteError ? 0 : 3;
  });
  for (const int rank : {0, 2}) {
    const test::Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.ended) << "hung";
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_THAT(outcome.text, HasSubstr("rank 1"));
  }
}

TEST_F(Encryption, AnAbortEndsTheOthers) {
  constexpr int kRanks = 3;
  const auto outcomes = test::runProcesses(kRanks, [&](int rank, test::Board& board, std::string& report) {
    const ecclResult_t ended = reduceUntilOneLeaves(rank, kRanks, board, report, ecclCommAbort);
    if (rank == 1) return ended == ecclSuccess ? 0 : 3;
    return ended != ecclSuccess && report.find("rank 1") != std::string::npos ? 0 : 4;
  });
  test::expectAllSucceeded(outcomes);
}

}  // namespace
}  // namespace eccl::runtime
