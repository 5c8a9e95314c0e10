// An executor whose moves are made later, by other threads, in a random order between lanes: what a device
// does, without one. It can refuse a move, have one fail, be slow, or never begin.
//
// Its memory is host memory, so any buffer can be taken for one of its own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "runtime/executor/executors.h"

namespace eccl::test {

/// The threads, and what goes wrong there. Shared by the executors of all ranks of this process. Options are
/// set before the calls that they are about.
class LaterDevice : public std::enable_shared_from_this<LaterDevice> {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> refuseAt{kNever};     // the submission of this number is refused, from 0
  std::atomic<int64_t> failAt{kNever};       // the task of this number fails, from 0
  std::atomic<int64_t> allocations{kNever};  // so many succeed
  std::atomic<bool> stuck{false};            // no task begins
  std::atomic<int> slow{0};                  // each task waits so many milliseconds before it writes
  std::function<bool(const void*)> holds = [](const void*) { return true; };

  std::atomic<int64_t> submitted{0}, begun{0}, done{0}, allocated{0}, inUse{0};
  std::atomic<uint32_t> mostInFlight{0};  // moves of one lane

  explicit LaterDevice(uint64_t seed) : random_(seed) {
    for (std::thread& thread : threads_) thread = std::thread([this] { work(); });
  }
  ~LaterDevice() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  /// Communicators that are made while the value lives have an executor of this device.
  class Offer {
   public:
    explicit Offer(const std::shared_ptr<LaterDevice>& device);
    ~Offer() { runtime::removeExecutorKind("later"); }
    Offer(const Offer&) = delete;
  };

  struct Lane {
    MovesInFlight inFlight;                 // the driver's
    std::deque<kernels::ReduceTask> tasks;  // the following under the mutex
    uint64_t complete = 0;
    bool running = false, failed = false, cancelled = false;
    const std::function<void()>* bell = nullptr;
  };
  void add(Lane& lane, const kernels::ReduceTask& task) {
    {
      std::lock_guard lock(mutex_);
      lane.tasks.push_back(task);
      if (lane.tasks.size() == 1 && !lane.running) ready_.push_back(&lane);
    }
    changed_.notify_all();
  }
  MoveState test(const Lane& lane, uint64_t tasks) {
    std::lock_guard lock(mutex_);
    return lane.failed ? MoveState::failed : lane.complete >= tasks ? MoveState::complete : MoveState::pending;
  }
  void cancel(Lane& lane) {
    std::lock_guard lock(mutex_);
    lane.cancelled = true;
    lane.tasks.clear();
    std::erase(ready_, &lane);
  }
  /// Returns when nothing of the lane is under way; `expectNothing`: it should be so now.
  void await(Lane& lane, bool expectNothing) {
    std::unique_lock lock(mutex_);
    if (expectNothing) {
      EXPECT_FALSE(lane.running) << "a Run has ended while a task of it is under way";
      EXPECT_TRUE(lane.tasks.empty()) << "a Run has ended before tasks of it have begun";
    }
    changed_.wait(lock, [&] { return !lane.running; });
    lane.tasks.clear();
    std::erase(ready_, &lane);
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || (!ready_.empty() && !stuck); });
      if (stopping_) return;
      std::swap(ready_[random_() % ready_.size()], ready_.back());
      Lane& lane = *ready_.back();
      ready_.pop_back();
      const kernels::ReduceTask task = lane.tasks.front();
      lane.tasks.pop_front();
      lane.running = true;
      const bool fails = begun++ == failAt;
      const bool pauses = random_() % 16 == 0;
      lock.unlock();
      if (slow > 0) std::this_thread::sleep_for(std::chrono::milliseconds(slow));
      if (pauses) std::this_thread::yield();
      if (!fails) kernels::reduce(task);
      lock.lock();
      lane.running = false;
      lane.failed |= fails;
      if (!fails) ++lane.complete, ++done;
      if (lane.failed) lane.tasks.clear();
      if (!lane.tasks.empty()) ready_.push_back(&lane);
      if (!lane.cancelled) (*lane.bell)();
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;
  std::vector<Lane*> ready_;  // lanes with tasks of which none is running
  bool stopping_ = false;
  std::thread threads_[2];
};

/// A stream of the device's, as a caller would have it: functions that are called in their order, by a thread.
class LaterStream {
 public:
  LaterStream() : thread_([this] { work(); }) {}
  /// Waits for what is in it.
  ~LaterStream() {
    put({});
    thread_.join();
  }
  void put(std::function<void()> function) {
    {
      std::lock_guard lock(mutex_);
      functions_.push_back(std::move(function));
    }
    changed_.notify_all();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !functions_.empty(); });
      const std::function<void()> function = std::move(functions_.front());
      functions_.pop_front();
      lock.unlock();
      if (!function) return;
      function();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> functions_;
  std::thread thread_;
};

/// A rank's executor of that device.
class LaterExecutor : public runtime::Executor {
 public:
  LaterExecutor(std::shared_ptr<LaterDevice> device, const runtime::ExecutorContext& context)
      : device_(std::move(device)), context_(context) {}

  const char* memory() const override { return "later"; }
  bool holds(const void* address) const override { return device_->holds(address); }
  Result<std::byte*> allocate(size_t bytes) override {
    if (device_->allocated++ >= device_->allocations)
      return Status::error(Code::system, "the later device has no memory left");
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    if (memory == nullptr) return Status::error(Code::system, "out of memory");
    ++device_->inUse;
    std::memset(memory, 0xa5, bytes);
    return memory;
  }
  void release(std::byte* memory) override {
    --device_->inUse;
    std::free(memory);
  }

  Status begin(runtime::Work& work) override {
    auto state = std::make_unique<State>(*device_);
    state->lanes.resize(work.laneCount);
    for (LaterDevice::Lane& lane : state->lanes) lane.bell = &context_.bell;
    work.state = std::move(state);
    return {};
  }
  LaneAnswer advance(runtime::Work& work, int32_t lane, int budget) override {
    Moves moves{*this, work, static_cast<State&>(*work.state)};
    return eccl::advance(work.view, lane, budget, moves);
  }
  void cancel(runtime::Work& work) override {
    for (LaterDevice::Lane& lane : static_cast<State&>(*work.state).lanes) device_->cancel(lane);
  }
  void quiesce(runtime::Work& work) override {
    for (LaterDevice::Lane& lane : static_cast<State&>(*work.state).lanes) device_->await(lane, false);
  }
  Result<std::unique_ptr<runtime::StreamGate>> enter(void* stream, std::span<runtime::Work* const>,
                                                     std::function<void()> reached) override {
    struct Gate final : runtime::StreamGate {
      std::promise<void> opened;
      ~Gate() override { opened.set_value(); }
    };
    auto gate = std::make_unique<Gate>();
    auto* const its = static_cast<LaterStream*>(stream);
    its->put(std::move(reached));
    its->put([opened = gate->opened.get_future().share()] { opened.wait(); });
    return std::unique_ptr<runtime::StreamGate>(std::move(gate));
  }
  Status failure(const runtime::Work& work) const override {
    const State& state = static_cast<const State&>(*work.state);
    return Status::error(Code::system, state.refused ? "the later device has refused a move"
                                                     : "a move of the later device has failed");
  }

 private:
  struct State final : runtime::WorkState {
    explicit State(LaterDevice& its) : device(its) {}
    ~State() override {
      for (LaterDevice::Lane& lane : lanes) device.await(lane, true);
    }
    LaterDevice& device;
    std::deque<LaterDevice::Lane> lanes;
    bool refused = false;
  };
  /// The interpreter's device.
  struct Moves {
    static constexpr bool kCompletesInSubmit = false;
    LaterExecutor& executor;
    runtime::Work& work;
    State& state;

    MovesInFlight& inFlight(int32_t lane) { return state.lanes[static_cast<size_t>(lane)].inFlight; }
    bool submit(int32_t lane, const MoveTask& move) {
      LaterDevice& device = *executor.device_;
      state.refused |= device.submitted++ == device.refuseAt;
      if (state.refused) return false;
      device.add(state.lanes[static_cast<size_t>(lane)], runtime::reduceTaskOf(work, move));
      const uint32_t now = inFlight(lane).count + 1;
      if (now > device.mostInFlight) device.mostInFlight = now;
      return true;
    }
    MoveState test(int32_t lane, uint64_t tasks) {
      return executor.device_->test(state.lanes[static_cast<size_t>(lane)], tasks);
    }
  };

  const std::shared_ptr<LaterDevice> device_;
  const runtime::ExecutorContext context_;
};

inline LaterDevice::Offer::Offer(const std::shared_ptr<LaterDevice>& device) {
  runtime::addExecutorKind({"later", [device](const runtime::ExecutorContext& context) {
                              return Result<std::shared_ptr<runtime::Executor>>(
                                  std::make_shared<LaterExecutor>(device, context));
                            }});
}

}  // namespace eccl::test
