// Deaths of real processes, with and without children of their own.
#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>

#include <csignal>

#include "transport/bootstrap/node.h"
#include "transport/net/loopback.h"

namespace eccl::transport {

using namespace std::chrono_literals;

namespace {

/// Ranks 1… as processes, forked before this process has threads; rank 0 lives here.
class ProcessCluster {
 public:
  using Body = void (*)(test::Node&);

  ProcessCluster(int nranks, Body atWork) : nranks_(nranks) {
    EXPECT_EQ(pipe2(channel_, O_CLOEXEC), 0);
    for (int rank = 1; rank < nranks; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) child(rank, atWork);
      pids_.push_back(pid);
    }
    auto root = Rendezvous::start(&id_, {});
    EXPECT_TRUE(root.ok()) << root.status().message();
    root_ = root.take();
    const UniqueId::Bytes bytes = id_.encode();
    for (int rank = 1; rank < nranks; ++rank) {
      EXPECT_EQ(write(channel_[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }
    node_ = std::make_unique<test::Node>(id_, 0, nranks);
    Status status = node_->join(Wait::within(20s));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  ~ProcessCluster() {
    for (int rank = 1; rank < nranks_; ++rank) kill(rank, SIGKILL);
    for (pid_t pid : pids_) waitpid(pid, nullptr, 0);
    close(channel_[0]);
    close(channel_[1]);
  }
  void kill(int rank, int signal) { ::kill(pids_[static_cast<size_t>(rank - 1)], signal); }
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank - 1)]; }
  test::Node& node() { return *node_; }

 private:
  [[noreturn]] void child(int rank, Body atWork) {
    UniqueId::Bytes bytes;
    if (read(channel_[0], bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) _exit(1);
    test::Node node(*UniqueId::decode(bytes), rank, nranks_);
    if (!node.join(Wait::within(20s)).ok()) _exit(2);
    atWork(node);
    // Tells rank 0 of every loss it hears of.
    for (std::set<int> told;;) {
      for (auto& [lost, reason] : node.lost()) {
        if (told.insert(lost).second) node.control().send(0, static_cast<uint16_t>(lost), reason).ignore();
      }
      std::this_thread::sleep_for(2ms);
    }
  }

  const int nranks_;
  int channel_[2];
  std::vector<pid_t> pids_;
  UniqueId id_ = UniqueId::random(System::real());
  std::unique_ptr<Rendezvous> root_;
  std::unique_ptr<test::Node> node_;
};

void ready(test::Node& node) {
  node.control().allGather("", Wait::within(20s)).status().ignore();
}

TEST(Death, AKilledProcessIsNamedWithinASecond) {
  ProcessCluster cluster(5, ready);
  ready(cluster.node());
  const TimePoint begun = System::real().now();
  cluster.kill(3, SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return cluster.node().lost().count(3) == 1; }, 1s));
  EXPECT_TRUE(test::eventually([&] { return cluster.node().messages().size() == 3; }, 1s))
      << "ranks 1, 2 and 4 report it too";
  std::printf("killed process known to all in %.3f s\n", test::since(begun));
  for (const test::Node::Message& m : cluster.node().messages()) {
    EXPECT_EQ(m.kind, 3);
    EXPECT_NE(m.payload.find(format("pid %d", cluster.pid(3))), std::string::npos) << m.payload;
  }
}

TEST(Death, AForkedChildDoesNotKeepItsParentAlive) {
  auto forksWorker = [](test::Node& node) {
    if (node.rank() == 3 && fork() == 0) {  // a data loader
      node.control().closeAfterFork();
      node.acceptor().closeAfterFork();
      for (int i = 0; i < 500; ++i) usleep(10'000);  // outlives its parent, not the test by much
      _exit(0);
    }
    ready(node);
  };
  ProcessCluster cluster(5, forksWorker);
  ready(cluster.node());
  cluster.kill(3, SIGKILL);
  EXPECT_TRUE(test::eventually([&] { return cluster.node().lost().count(3) == 1; }, 1s));
  EXPECT_TRUE(test::eventually([&] { return cluster.node().messages().size() == 3; }, 1s));
}

TEST(Death, AChildsCleanUpDoesNotHarmItsParent) {
  auto forksAndReaps = [](test::Node& node) {
    const pid_t worker = fork();
    if (worker == 0) {
      node.control().closeAfterFork();
      node.acceptor().closeAfterFork();
      _exit(0);
    }
    waitpid(worker, nullptr, 0);
    ready(node);
    ready(node);
  };
  ProcessCluster cluster(4, forksAndReaps);
  forksAndReaps(cluster.node());
  EXPECT_TRUE(cluster.node().lost().empty());
}

TEST(Death, AStoppedProcessIsNotDead) {
  ProcessCluster cluster(3, ready);
  ready(cluster.node());
  cluster.kill(2, SIGSTOP);
  std::this_thread::sleep_for(1s);
  EXPECT_TRUE(cluster.node().lost().empty());
  cluster.kill(2, SIGCONT);
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(cluster.node().lost().empty());
}

/// Two ranks on a loopback interface that goes down: no end of a connection arrives anywhere.
bool noticesACut() {
  Control::Options options;
  options.hostLimit = 1s;
  test::Cluster cluster(2, options);
  test::setLoopback(false);
  const TimePoint begun = System::real().now();
  const bool both =
      test::eventually([&] { return cluster[0].lost().count(1) == 1 && cluster[1].lost().count(0) == 1; }, 10s);
  const std::string reason = cluster[0].lost()[1];
  std::printf("cut cable noticed after %.2f s with a limit of 1 s: %s\n", test::since(begun), reason.c_str());
  return both && test::contains(reason, "nor does its host acknowledge");
}

TEST(Death, ACutCableIsNoticedAlthoughNothingCloses) {
  constexpr int kNoNamespace = 77;
  const pid_t child = fork();
  if (child == 0) {
    // A network of its own, to be taken down.
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) _exit(kNoNamespace);
    if (!test::setLoopback(true)) _exit(kNoNamespace);
    const bool good = noticesACut();
    std::fflush(nullptr);
    _exit(good && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoNamespace)
    GTEST_SKIP() << "no network namespace may be made here (needs root or user namespaces)";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace eccl::transport
