// Two ranks' whole life in one thread, on virtual time and a virtual network: from joining by a unique id to
// being destroyed. By TCP: shared memory, pidfds and threads of one process are the machine's (base/system.h).
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "runtime/communicator/communicator.h"
#include "support/sanitizers.h"
#include "virtual/virtual_system.h"

namespace eccl::runtime {
namespace {

using namespace std::chrono_literals;
using test::CallFailure;
using test::VirtualSystem;
using test::World;

/// With a sanitizer, which takes ten times as long, an eighth of the lives.
constexpr int kFewer = kSanitized ? 8 : 1;

/// Who lives, and how.
struct Job {
  uint64_t seed;
  Duration late{};  // rank 1 comes so much later than rank 0
  CallFailure failure{};
  bool encrypts = false;
  Duration idle{};  // before all leave
  int ranks = 2;
  std::string algorithm = "";
  std::vector<size_t> counts = {3, 40'000};  // one message in its slot's header, and some full slots
};

struct Life {
  std::string hang;
  std::vector<Status> outcome;  // the first error of each rank, or ok
  std::vector<std::string> trace;
  std::map<std::string, int> calls;
  Duration took{};  // of virtual time
  size_t leftOpen = 0;
};

Status reduceAndCheck(Communicator& communicator, size_t count) {
  std::vector<float> in(count), out(count);
  for (size_t i = 0; i < count; ++i)
    in[i] = static_cast<float>(i % 1000) + static_cast<float>(communicator.rank());
  Call call;
  call.send = in.data();
  call.receive = out.data();
  call.count = count;
  ECCL_TRY(communicator.execute(std::move(call)));
  for (size_t i = 0; i < count; ++i) {
    const int ranks = communicator.ranks();
    const float expected = static_cast<float>(ranks * static_cast<int>(i % 1000) + ranks * (ranks - 1) / 2);
    if (out[i] != expected)
      return Status::error(Code::internal, "element %zu is %g, not %g", i, static_cast<double>(out[i]),
                           static_cast<double>(expected));
  }
  return {};
}

Status liveAsRank(int rank, VirtualSystem& system, const transport::UniqueId& id, const Job& job) {
  CommunicatorOptions options;
  options.system = &system;
  options.settings.transport = "tcp";
  options.settings.speedsFile = "none";
  options.settings.initTimeout = 20;
  options.settings.channels = 1;
  options.settings.encrypt = job.encrypts;
  options.settings.algo = job.algorithm;
  options.settings.socketsPerRail = 2;  // the second joins while the job runs
  const auto communicator = std::make_shared<Communicator>(std::move(options));
  const auto work = [&]() -> Status {
    ECCL_TRY(communicator->join(id, rank, job.ranks));
    for (size_t count : job.counts) ECCL_TRY(reduceAndCheck(*communicator, count));
    system.poll(-1, 0, job.idle);
    return communicator->finalize();
  };
  const Status status = guarded("a rank", work);
  if (!status.ok()) communicator->abort();
  const Status ended = communicator->destroy();
  return status.ok() ? ended : status;
}

Life live(const Job& job) {
  Life life;
  World world(job.seed);
  world.failure = job.failure;
  std::vector<VirtualSystem*> network;
  std::vector<std::unique_ptr<VirtualSystem>> systems;
  for (int rank = 0; rank < job.ranks; ++rank)
    systems.push_back(std::make_unique<VirtualSystem>(world, network));
  transport::UniqueId id = transport::UniqueId::random(*systems[0]);
  id.rootByRank0 = true;
  const sockaddr_in listener = systems[0]->address(4000);
  id.addresses = {transport::SocketAddress::from(reinterpret_cast<const sockaddr*>(&listener))};
  const TimePoint begun = world.now();
  life.outcome.resize(systems.size());
  for (int rank = 0; rank < job.ranks; ++rank) {
    VirtualSystem& system = *network[static_cast<size_t>(rank)];
    system.spawn("rank", [&life, &system, &id, &job, rank] {
      if (rank == 1) system.poll(-1, 0, job.late);
      life.outcome[static_cast<size_t>(rank)] = liveAsRank(rank, system, id, job);
    });
  }
  life.hang = world.run(5min);
  life.took = world.now() - begun;
  life.trace = std::move(world.trace);
  life.calls = std::move(world.calls);
  for (const auto& system : systems) life.leftOpen += system->open();
  return life;
}

void expectGood(const Life& life) {
  EXPECT_EQ(life.hang, "");
  for (const Status& status : life.outcome) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(life.leftOpen, 0U);
}

/// The first line that differs, for people.
std::string difference(const Life& one, const Life& other) {
  const size_t both = std::min(one.trace.size(), other.trace.size());
  for (size_t i = 0; i < both; ++i) {
    if (one.trace[i] != other.trace[i])
      return "line " + std::to_string(i) + ": " + one.trace[i] + " | " + other.trace[i];
  }
  return one.trace.size() == other.trace.size() ? "" : "one goes on after line " + std::to_string(both);
}

TEST(VirtualLife, TwoRanksJoinReduceAndLeaveInOneThread) {
  expectGood(live({.seed = 1}));
}

TEST(VirtualLife, TheSameSeedGivesTheSameTrace) {
  const Life one = live({.seed = 7}), again = live({.seed = 7}), another = live({.seed = 8});
  expectGood(one);
  expectGood(another);
  EXPECT_GT(one.trace.size(), 200U);
  EXPECT_EQ(difference(one, again), "");
  EXPECT_EQ(one.took, again.took);
  EXPECT_NE(difference(one, another), "");
}

// As on Linux: bytes, then the reset.
TEST(VirtualNetwork, WhatArrivedBeforeAResetIsRead) {
  World world(1);
  std::vector<VirtualSystem*> network;
  VirtualSystem one(world, network), other(world, network);
  const sockaddr_in address = one.address(4000);
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  std::string got;
  int error = 0;
  one.spawn("closes", [&] {
    const int listener = one.socket(AF_INET);
    one.bind(listener, at, sizeof address);
    one.listen(listener, 1);
    one.poll(listener, POLLIN, System::kForever);
    const int socket = one.accept(listener, nullptr, nullptr);
    one.send(socket, "last", 4);
    one.poll(socket, POLLIN, System::kForever);
    one.close(socket);  // with what came unread
    one.close(listener);
  });
  other.spawn("reads", [&] {
    other.poll(-1, 0, 10ms);
    const int socket = other.socket(AF_INET);
    other.connect(socket, at, sizeof address);
    other.poll(socket, POLLOUT, System::kForever);
    other.send(socket, "ask", 3);
    other.poll(-1, 0, 1s);
    char bytes[8];
    for (ssize_t count; (count = other.recv(socket, bytes, sizeof bytes)) != 0;) {
      if (count < 0) {
        error = errno;
        break;
      }
      got.append(bytes, static_cast<size_t>(count));
    }
    other.close(socket);
  });
  EXPECT_EQ(world.run(1min), "");
  EXPECT_EQ(got, "last");
  EXPECT_EQ(error, ECONNRESET);
}

TEST(VirtualLife, ManySeeds) {
  for (uint64_t seed = 100; seed < 240; seed += kFewer) {
    SCOPED_TRACE(seed);
    expectGood(live({.seed = seed}));
  }
}

TEST(VirtualLife, ManySeedsEncrypted) {
  if (const auto tls = transport::tlsLibrary(); !tls.ok()) GTEST_SKIP() << tls.status().message();
  for (uint64_t seed = 100; seed < 200; seed += kFewer) {
    SCOPED_TRACE(seed);
    expectGood(live({.seed = seed, .encrypts = true}));
  }
}

TEST(VirtualLife, WaitsTakeNoTime) {
  const auto begun = std::chrono::steady_clock::now();
  const Life life = live({.seed = 3, .late = 15s});
  const auto took = std::chrono::steady_clock::now() - begun;
  expectGood(life);
  EXPECT_GE(life.took, 15s);
  EXPECT_LT(took, 5s);
}

// Each costs: see Communicator::establish().
TEST(VirtualLife, IdleRanksGiveOneSignASecond) {
  Life busy = live({.seed = 4}), idle = live({.seed = 4, .idle = 30s});
  expectGood(busy);
  expectGood(idle);
  for (const char* rank : {"0 sendmsg", "1 sendmsg"}) {
    const int signs = idle.calls[rank] - busy.calls[rank];
    EXPECT_GE(signs, 25) << rank;
    EXPECT_LE(signs, 35) << rank;
  }
}

/// What a call may fail with, here.
const std::map<std::string, std::vector<int>> kFailures = {
    {"interfaces", {ENOMEM}},
    {"start", {EAGAIN}},
    {"socket", {EMFILE}},
    {"bind", {EADDRINUSE}},
    {"listen", {ENOBUFS}},
    {"accept", {ECONNABORTED, EMFILE, EINTR}},
    {"connect", {ENETUNREACH}},
    {"getsockname", {ENOBUFS}},
    {"getpeername", {ENOBUFS}},
    {"getsockopt", {ENOBUFS}},
    {"setsockopt", {ENOBUFS}},
    {"shutdown", {ENOTCONN}},
    {"sendmsg", {ECONNRESET, EINTR, ENOBUFS}},
    {"recvmsg", {ECONNRESET, EINTR, ENOMEM}},
    {"poll", {EINTR}},
    {"epoll_create", {EMFILE}},
    {"epoll_add", {ENOMEM}},
    {"epoll_wait", {EINTR}},
    {"eventfd", {EMFILE}},
};

/// No hang, nothing left open, and each rank has either lived well or says what happened to whom.
void expectGoodOrToldOf(const Life& life, int failing) {
  EXPECT_EQ(life.hang, "");
  EXPECT_EQ(life.leftOpen, 0U);
  for (int rank = 0; rank < 2; ++rank) {
    const Status& outcome = life.outcome[static_cast<size_t>(rank)];
    const std::string& message = outcome.message();
    if (outcome.ok()) continue;
    EXPECT_NE(message, "");
    EXPECT_EQ(message.find("another version"), message.npos)
        << "nobody takes anything for what it is not: " << message;
    const std::string whom = "rank " + std::to_string(failing);
    const bool named = message.find(whom) != message.npos || message.find("10.0.0.1:4000") != message.npos;
    EXPECT_TRUE(rank == failing || named) << "rank " << rank << " says: " << message;
  }
}

/// Each call of two ranks' life fails once, in a life of its own. Of calls that are many, some: the same places
/// of the library make them.
void anyCallMayFail(bool encrypts, int mostOfOneKind) {
  constexpr uint64_t kSeed = 5;
  const Life good = live({.seed = kSeed, .encrypts = encrypts});
  expectGood(good);
  int lives = 0, bad = 0;
  for (const auto& [which, count] : good.calls) {
    const int system = which[0] - '0';
    const auto failures = kFailures.find(which.substr(2));
    if (failures == kFailures.end()) continue;  // it cannot fail
    for (int error : failures->second) {
      for (int number = 0; number < count; number += 1 + count / mostOfOneKind) {
        SCOPED_TRACE(
            format("node%d, %s number %d: %s", system, which.c_str() + 2, number, std::strerror(error)));
        const Life life =
            live({.seed = kSeed, .failure = {system, which.substr(2), number, error}, .encrypts = encrypts});
        ++lives;
        bad += !life.outcome[0].ok() || !life.outcome[1].ok();
        expectGoodOrToldOf(life, system);
      }
    }
  }
  std::printf("%d lives, %d of them ended badly\n", lives, bad);
  EXPECT_GT(lives, 300 / kFewer);
  EXPECT_GT(bad, 30 / kFewer) << "failures have an effect";
  EXPECT_LT(bad, lives);
}

TEST(VirtualLife, AnyCallMayFail) {
  anyCallMayFail(false, 60 / kFewer);
}

// At every single receive, of which AnyCallMayFail tries some.
TEST(VirtualLife, AnyConnectionMayBreakAtAnyTime) {
  constexpr uint64_t kSeed = 5;
  const Life good = live({.seed = kSeed});
  expectGood(good);
  for (const int node : {0, 1}) {
    for (int number = 0; number < good.calls.at(format("%d recvmsg", node)); number += kFewer) {
      SCOPED_TRACE(format("node%d, recvmsg number %d", node, number));
      const Life life = live({.seed = kSeed, .failure = {node, "recvmsg", number, ECONNRESET}});
      expectGoodOrToldOf(life, node);
      EXPECT_LT(life.trace.size(), 10 * good.trace.size()) << "a thread does not sleep";
    }
  }
}

TEST(VirtualLife, AnyCallMayFailEncrypted) {
  if (const auto tls = transport::tlsLibrary(); !tls.ok()) GTEST_SKIP() << tls.status().message();
  anyCallMayFail(true, 30 / kFewer);
}

// One element over two trees: nothing goes over the second one, but its lanes wait for its connections, too.
// Where one of these comes late, a rank has its result and is gone before its neighbour's lane begins.
TEST(VirtualLife, ARankMayBeGoneBeforeItsNeighboursLaneBegins) {
  Job job{.seed = 300, .ranks = 7, .algorithm = "tree", .counts = {1}};
  const Life good = live(job);
  expectGood(good);
  int lives = 0;
  for (const auto& [which, count] : good.calls) {
    const std::string call = which.substr(2);
    if (call != "connect" && call != "accept") continue;
    for (int error : kFailures.at(call)) {
      for (int number = 0; number < count; number += kFewer, ++lives) {
        SCOPED_TRACE(format("node%c, %s number %d: %s", which[0], call.c_str(), number, std::strerror(error)));
        job.failure = {which[0] - '0', call, number, error};
        expectGood(live(job));
      }
    }
  }
  EXPECT_GT(lives, 50 / kFewer);
}

TEST(VirtualLife, ARankThatNeverComesIsNamed) {
  const Life life = live({.seed = 3, .late = 60s});
  EXPECT_EQ(life.hang, "");
  EXPECT_EQ(life.outcome[0].code(), Code::timeout);
  EXPECT_NE(life.outcome[0].message().find("rank 1 of 2 has not joined after 20 s"), std::string::npos)
      << life.outcome[0].message();
  EXPECT_FALSE(life.outcome[1].ok());
  EXPECT_EQ(life.leftOpen, 0U);
}

}  // namespace
}  // namespace eccl::runtime
