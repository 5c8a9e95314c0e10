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
  StagedGraphs(Gpu& gpu, std::function<void()> bell) : order_(gpu), gpu_(gpu), bell_(std::move(bell)) {}

  /// Held while calls are captured: of their order, and of twin().
  std::mutex& mutex() { return mutex_; }
  CallOrder& order() { return order_; }
  /// Pinned memory of captured calls, of so many bytes at least. Calls with one key follow one another, so they
  /// have the same; it is given back when none has it any more. Its context is current. Error: Gpu::pin()'s.
  using Key = std::tuple<CallOrder::Line, size_t, bool>;  // its place among such calls of a group; output
  Result<std::shared_ptr<const Pinned>> twin(const Key& key, size_t bytes);

  /// A captured call. It says when it begins, in a host function, and is told when the communicator ends.
  void add(const std::shared_ptr<StagedRun>& run);
  void begin(StagedRun& run);
  void ring() const { bell_(); }
  bool anyBegun() const { return any_.load(std::memory_order_acquire); }
  std::vector<StagedRun*> takeBegun();
  /// Graphs that still run go on, and no call is made any more.
  void end();

 private:
  std::mutex mutex_;
  CallOrder order_;
  std::map<Key, std::shared_ptr<const Pinned>> twins_;

  Gpu& gpu_;
  const std::function<void()> bell_;
  std::mutex running_;  // of the following; held for moments
  std::vector<std::weak_ptr<StagedRun>> all_;
  std::vector<StagedRun*> begun_;
  std::atomic<bool> any_{false};
};

}  // namespace eccl::runtime::cuda
