// What captured calls of one rank have in common, where calls are staged.
//
// A captured call has its twins and words for itself, as long as its graph lives. When the graph runs, a host
// function says which call is wanted again; the engine makes a Run of it.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/cuda/call_order.h"

namespace eccl::runtime::cuda {

class StagedRun;

/// Owner: the executor, shared with the graphs that its calls are in. Any thread.
class StagedGraphs {
 public:
  /// `wanted`: has the engine take what has begun. `bell`: has it look at the words of its Runs.
  StagedGraphs(Gpu& gpu, std::function<void()> bell, std::function<void()> wanted)
      : order_(gpu), gpu_(gpu), bell_(std::move(bell)), wanted_(std::move(wanted)) {}

  /// Held while calls are captured: of their order, and of twin().
  std::mutex& mutex() { return mutex_; }
  CallOrder& order() { return order_; }
  /// Pinned memory of captured calls, of so many bytes at least. Calls with one key follow one another, so they
  /// have the same; it is given back when none has it any more. Its context is current. Error: Gpu::pin()'s.
  using Key = std::tuple<CallOrder::Line, size_t, bool>;  // its place among such calls of a group; output
  Result<std::shared_ptr<const Pinned>> twin(const Key& key, size_t bytes);

  /// A graph has come to a captured call, says a host function.
  void begin(StagedRun& run);
  void ring() const { bell_(); }
  bool anyBegun() const { return any_.load(std::memory_order_acquire); }
  std::vector<StagedRun*> takeBegun();
  /// The communicator has failed, or is gone: calls that graphs come to from now on are let go, not made. Those
  /// that the engine has taken end as Runs do.
  void end();

 private:
  std::mutex mutex_;
  CallOrder order_;
  std::map<Key, std::weak_ptr<const Pinned>> twins_;

  Gpu& gpu_;
  const std::function<void()> bell_, wanted_;
  std::mutex running_;  // of the following; held for moments
  bool ended_ = false;
  std::vector<StagedRun*> begun_;
  std::atomic<bool> any_{false};
};

}  // namespace eccl::runtime::cuda
