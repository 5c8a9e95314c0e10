// A rank in miniature: Acceptor, Control and the service thread that the runtime would own.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "transport/bootstrap/control.h"
#include "transport/bootstrap/rendezvous.h"

namespace eccl::test {

using namespace std::chrono_literals;

/// One rank in this process. Threads: join() in any; the handler's records are guarded.
class Node : public transport::ControlHandler {
 public:
  Node(const transport::UniqueId& id, int rank, int nranks, transport::Control::Options options = {})
      : id_(id), rank_(rank), nranks_(nranks), longestSleepMs_(options.system == &System::real() ? 50 : 5) {
    control_ = std::make_unique<transport::Control>(id.communicator, id.secret, rank, nranks, options, this);
    EXPECT_TRUE(control_->open().ok());
    auto acceptor = transport::Acceptor::open(
        id.secret, {}, [this](transport::Incoming in) { control_->adopt(std::move(in)); });
    EXPECT_TRUE(acceptor.ok()) << acceptor.status().message();
    if (acceptor.ok()) acceptor_ = acceptor.take();
    service_ = std::thread([this] { serve(); });
  }
  ~Node() override { vanish(); }

  Status join(const transport::Wait& wait) {
    ECCL_ASSIGN(auto parent, transport::rendezvous(id_, {rank_, nranks_, acceptor_->endpoint()}, wait));
    return control_->connect(parent, wait);
  }
  /// Ends like a killed process: sockets close, nothing is said.
  void vanish() {
    stop();
    if (service_.joinable()) service_.join();
    control_.reset();
    acceptor_.reset();
  }
  void stop() { stop_ = true; }
  void leave() { control_->disconnect(transport::Wait::within(2s)); }
  /// Stops or resumes the service thread: a process in a debugger.
  void freeze(bool frozen) { frozen_ = frozen; }

  /// Returns when the service thread has done a whole turn since the call.
  void awaitTurn() {
    for (const int begun = turns_; turns_ < begun + 2;) std::this_thread::sleep_for(1ms);
  }

  transport::Control& control() { return *control_; }
  transport::Acceptor& acceptor() { return *acceptor_; }
  int rank() const { return rank_; }

  struct Message {
    int origin;
    uint16_t kind;
    std::string payload;
  };
  std::vector<Message> messages() { return std::lock_guard(mutex_), messages_; }
  std::map<int, std::string> lost() { return std::lock_guard(mutex_), lost_; }
  std::set<int> left() { return std::lock_guard(mutex_), left_; }

 private:
  void onMessage(int origin, uint16_t kind, std::string_view payload) override {
    std::lock_guard lock(mutex_);
    messages_.push_back({origin, kind, std::string(payload)});
  }
  void onLost(int rank, const std::string& reason) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(lost_.emplace(rank, reason).second) << "told twice of rank " << rank;
  }
  void onLeft(int rank) override {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(left_.insert(rank).second) << "told twice of rank " << rank;
  }
  void serve() {
    while (!stop_) {
      const TimePoint next = std::min(control_->nextDeadline(), acceptor_->nextDeadline());
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - System::real().now()).count();
      pollfd fds[] = {{control_->fd(), POLLIN, 0}, {acceptor_->fd(), POLLIN, 0}};
      poll(fds, 2, static_cast<int>(std::clamp<long>(left, 0, longestSleepMs_)));
      ++turns_;
      if (frozen_) {
        std::this_thread::sleep_for(5ms);
        continue;
      }
      acceptor_->progress();
      control_->progress();
    }
  }

  const transport::UniqueId id_;
  const int rank_, nranks_;
  const int longestSleepMs_;  // short on a clock that no sleep can follow
  std::atomic<int> turns_{0};
  std::unique_ptr<transport::Control> control_;
  std::unique_ptr<transport::Acceptor> acceptor_;
  std::atomic<bool> stop_{false}, frozen_{false};
  std::mutex mutex_;
  std::vector<Message> messages_;
  std::map<int, std::string> lost_;
  std::set<int> left_;
  std::thread service_;
};

/// True as soon as `condition` holds; false after `limit`.
template <class F>
bool eventually(F condition, Duration limit = 5s) {
  const transport::Wait wait = transport::Wait::within(limit);
  while (!condition()) {
    if (wait.expired()) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

/// n ranks, joined through a root and connected.
class Cluster {
 public:
  explicit Cluster(int n, const transport::Control::Options& options = {})
      : id_(transport::UniqueId::random(System::real())) {
    auto root = transport::Rendezvous::start(&id_, {});
    EXPECT_TRUE(root.ok()) << root.status().message();
    if (root.ok()) root_ = root.take();
    for (int rank = 0; rank < n; ++rank) nodes_.push_back(std::make_unique<Node>(id_, rank, n, options));
    each([](Node& node) {
      Status status = node.join(transport::Wait::within(60s));
      EXPECT_TRUE(status.ok()) << status.message();
    });
  }
  ~Cluster() {
    for (auto& node : nodes_) node->stop();  // all at once, then one by one
  }
  Node& operator[](int rank) { return *nodes_[static_cast<size_t>(rank)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  const transport::UniqueId& id() const { return id_; }
  transport::Rendezvous& root() { return *root_; }

  /// Runs f for every rank, each in its thread.
  template <class F>
  void each(F f) {
    std::vector<std::thread> threads;
    for (auto& node : nodes_) threads.emplace_back([&f, &node] { f(*node); });
    for (std::thread& thread : threads) thread.join();
  }
  void leaveAll() {
    each([](Node& node) { node.leave(); });
  }

 private:
  transport::UniqueId id_;
  std::unique_ptr<transport::Rendezvous> root_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Exact, unlike seconds(), which is for messages.
inline double since(TimePoint begun) {
  return std::chrono::duration<double>(System::real().now() - begun).count();
}
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

/// What a rank says in a test.
inline std::string partOf(int rank, int round = 0) {
  return format("rank %d round %d ", rank, round) + std::string(static_cast<size_t>(rank % 7), 'x');
}

/// All ranks take part in `rounds` allGathers and check what they get.
inline void gatherEverywhere(Cluster& cluster, int rounds) {
  cluster.each([&](Node& node) {
    for (int round = 0; round < rounds; ++round) {
      auto all = node.control().allGather(partOf(node.rank(), round), transport::Wait::within(60s));
      ASSERT_TRUE(all.ok()) << all.status().message();
      ASSERT_EQ(all->size(), static_cast<size_t>(cluster.size()));
      for (int r = 0; r < cluster.size(); ++r) ASSERT_EQ(all->list()[static_cast<size_t>(r)], partOf(r, round));
    }
  });
}

}  // namespace eccl::test
