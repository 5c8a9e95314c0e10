// How UCX connections end: whoever takes its memory back has it for itself, whatever the peer does.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "ucx/workers.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

class UcxEndings : public UcxTwo {
 protected:
  ReceiveEnd receiving;
  SendEnd sending;
  std::vector<char> data = std::vector<char>(1 << 20, 'x');
  std::vector<std::byte> memory = std::vector<std::byte>(1 << 20, std::byte{1});
};

// The receiver has asked for the data, which the sender has not sent yet.
TEST_F(UcxEndings, AfterPoisonNothingIsWritten) {
  meet(receiving);
  receiving.offer(0, memory.data(), 1 << 20);
  send(frame(0, 1 << 20), data.data(), 1 << 20, UCP_AM_SEND_FLAG_RNDV);
  // The request is on its way; then the sender stands still.
  for (int i = 0; i < 3; ++i) liar->worker->look();
  liarGoesOn = false;
  rest();
  const TimePoint begun = System::real().now();
  path->poison();
  EXPECT_LT(System::real().now() - begun, std::chrono::seconds(4));  // it would wait for 5 s
  std::fill(memory.begin(), memory.end(), std::byte{2});
  liarGoesOn = true;
  rest();
  for (const std::byte each : memory) ASSERT_EQ(each, std::byte{2});
  UcxWord word{};
  EXPECT_EQ(theirs.receive(&word, sizeof word), static_cast<ssize_t>(sizeof word));
  EXPECT_EQ(word.kind, UcxWord::Kind::poison);
}

TEST_F(UcxEndings, ASenderThatIsPoisonedHasItsMemoryBack) {
  meet(sending);
  Slot* slot = sending.reserve(1 << 20);
  ASSERT_NE(slot, nullptr);
  uint64_t offset = 0;
  ASSERT_TRUE(sending.reaches(memory.data(), 1 << 20, &offset));
  slot->offset = offset;
  sending.publish(1 << 20, kSlotGet, 1);
  liarGoesOn = false;
  path->kick();
  rest();
  const TimePoint begun = System::real().now();
  path->poison();
  path->poison();
  EXPECT_LT(System::real().now() - begun, std::chrono::seconds(4));  // it would wait for 5 s
}

TEST_F(UcxEndings, DestructionDoesNotWaitForAPeerThatStandsStill) {
  meet(receiving);
  receiving.offer(0, memory.data(), 1 << 20);
  send(frame(0, 1 << 20), data.data(), 1 << 20, UCP_AM_SEND_FLAG_RNDV);
  for (int i = 0; i < 3; ++i) liar->worker->look();
  liarGoesOn = false;
  rest();
  const TimePoint begun = System::real().now();
  path.reset();
  EXPECT_LT(System::real().now() - begun, std::chrono::seconds(4));  // it would wait for 5 s
}

TEST_F(UcxEndings, TheEndOfTheSocketIsThePeers) {
  meet(receiving);
  theirs.reset();
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_EQ(broken, "the peer closed the connection");
  EXPECT_TRUE(receiving.poisoned());
}

TEST_F(UcxEndings, UcxLosesThePeer) {
  meet(sending);
  endpoint = nullptr;
  liar.reset();
  sending.publish(0, 0, 1);
  path->kick();
  EXPECT_TRUE(until([&] { return !broken.empty(); }));
  EXPECT_THAT(broken, ::testing::AnyOf(HasSubstr("UCX has lost it: "), HasSubstr("sending to it failed: ")));
  EXPECT_TRUE(sending.poisoned());
}

// A receiver that says so over the socket only after messages that UCX has still to bring.
TEST_F(UcxEndings, PoisonComesAfterWhatWasSent) {
  meet(receiving);
  send(frame(0, 8), data.data(), 8);
  for (int i = 0; i < 10; ++i) liar->worker->look();
  // It has come to this host, and the receiver has not looked.
  int bell = -1;
  ASSERT_EQ(ucp_worker_get_efd(mine.worker->handle(), &bell), UCS_OK);
  pollfd ready{bell, POLLIN, 0};
  ASSERT_EQ(::poll(&ready, 1, 20'000), 1);
  say({UcxWord::Kind::poison});
  EXPECT_TRUE(until([&] { return receiving.poisoned(); }));
  Received received;
  EXPECT_TRUE(receiving.peek(received));
  EXPECT_EQ(broken, "");
}

// The other process ended before the two could meet.
TEST_F(UcxEndings, NobodyIsThereToMeet) {
  auto gone = std::make_unique<UcxRank>(1);
  const std::string address = gone->worker->address();
  gone.reset();
  const Status opened = open(receiving, address);
  if (opened.ok()) {
    EXPECT_TRUE(until([&] { return !broken.empty(); }));
    EXPECT_THAT(broken, HasSubstr("UCX has lost it: "));
  } else {
    EXPECT_THAT(opened.message(), HasSubstr("reaching the peer"));
  }
}

// To end before the two have met could end the process of the other.
TEST_F(UcxEndings, WhoIsNotThereYetIsWaitedFor) {
  liar = std::make_unique<UcxRank>(1);
  ASSERT_TRUE(open(receiving, liar->worker->address()).ok());
  const TimePoint begun = System::real().now();
  std::atomic<bool> ended = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    liar->worker->goOn(std::chrono::seconds(20), [&] { return ended.load(); });
  });
  path.reset();
  ended = true;
  EXPECT_GE(System::real().now() - begun, std::chrono::milliseconds(50));
  other.join();
  EXPECT_FALSE(mine.worker->abandoned());
}

// Who has failed does not wait.
TEST_F(UcxEndings, PoisonWaitsForNobody) {
  liar = std::make_unique<UcxRank>(1);
  ASSERT_TRUE(open(receiving, liar->worker->address()).ok());
  const TimePoint begun = System::real().now();
  path->poison();
  path.reset();
  EXPECT_LT(System::real().now() - begun, std::chrono::milliseconds(1800));  // it would wait for 2 s
  EXPECT_TRUE(mine.worker->abandoned());
  UcxWord word{};
  EXPECT_EQ(theirs.receive(&word, sizeof word), static_cast<ssize_t>(sizeof word));
  EXPECT_EQ(word.kind, UcxWord::Kind::poison);
}

/// A process that waits for a word, makes a worker and lets that go on until it is killed.
class UcxProcessAside {
 public:
  UcxProcessAside() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_), 0);
    pid_ = fork();
    if (pid_ > 0) return;
    // Whatever becomes of the test, nobody stays.
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() == 1) _exit(1);
    close(pair_[0]);
    char word;
    if (read(pair_[1], &word, 1) != 1) _exit(1);
    UcxRank rank(1);
    const std::string& address = rank.worker->address();
    if (write(pair_[1], address.data(), address.size()) < 0) _exit(1);
    for (;;) rank.worker->look();
  }
  ~UcxProcessAside() {
    end();
    close(pair_[0]);
    close(pair_[1]);
  }
  /// Its worker's.
  std::string address() {
    char bytes[4096];
    const ssize_t count = write(pair_[0], "!", 1) == 1 ? read(pair_[0], bytes, sizeof bytes) : 0;
    return std::string(bytes, static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  void end() {
    if (pid_ <= 0) return;
    EXPECT_EQ(kill(pid_, SIGKILL), 0);
    EXPECT_EQ(waitpid(std::exchange(pid_, 0), nullptr, 0) > 0, true);
  }

 private:
  int pair_[2];
  pid_t pid_;
};

// However far the two have come: UCX 1.13 does not find out that its peer died then.
TEST(UcxMeeting, MayEndByADeath) {
  constexpr int kSteps = 12;
  if (ucxRanksMade > 0) GTEST_SKIP() << "this process has used UCX already; ctest starts one for each test";
  std::vector<std::unique_ptr<UcxProcessAside>> processes;
  for (int i = 0; i < kSteps; ++i) processes.push_back(std::make_unique<UcxProcessAside>());
  for (int step = 0; step < kSteps; ++step) {
    UcxRank mine(0);
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    Stream socket{Fd(pair[0])}, theirs{Fd(pair[1])};
    UcxSetup setup(*mine.worker, ConnectionId{1, 0, 0, 0});
    SetupData answer;
    ASSERT_TRUE(sayUcx({1, processes[step]->address()}, ucxVersion(), &answer).ok());
    ASSERT_TRUE(setup.read(answer).ok());
    ReceiveEnd end;
    std::string broken;
    auto path = setup.open(end, {socket, [&](const Breakage& why) { broken = why.reason; }, nullptr});
    ASSERT_TRUE(path.ok()) << path.status().message();
    for (int i = 0; i < 1 << step; ++i) mine.worker->progress();
    processes[step]->end();
    theirs.reset();
    const TimePoint begun = System::real().now();
    while (broken.empty() && System::real().now() - begun < std::chrono::seconds(5)) {
      mine.reactor.poll(Duration::zero());
      mine.worker->progress();
    }
    EXPECT_NE(broken, "");
    if (step % 2 == 0) (*path)->poison();
    path.take().reset();
    EXPECT_LT(System::real().now() - begun, std::chrono::milliseconds(1800)) << step;  // it would wait for 2 s
  }
}

TEST_F(UcxEndings, AForkedChildTouchesNothingOfUcx) {
  meet(receiving);
  const pid_t child = fork();
  if (child == 0) {
    path->closeAfterFork();
    mine.worker->closeAfterFork();
    mine.reactor.closeAfterFork();
    path.reset();
    mine.worker.reset();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  send(frame(0, 8), data.data(), 8);
  Received received;
  EXPECT_TRUE(until([&] { return receiving.peek(received); }));
}

}  // namespace
}  // namespace eccl::transport
