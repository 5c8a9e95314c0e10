// A host stream: work in order, across communicators.
//
// A Run has one hold (Run::holds) for each stream in which it has a place, and begins when its turn has come
// in all of them. That is mostly one stream; a copy to oneself whose Send and Recv are on different streams
// has two.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/execution/engine.h"

namespace eccl::runtime {

/// One Run and the engine it runs on; `owner` keeps both alive.
struct StreamItem {
  std::shared_ptr<void> owner;
  Engine* engine = nullptr;
  std::shared_ptr<Run> run;
};

/// A Run whose turn in a stream has not come. `ahead`: those of the batch that goes on there, as far as they
/// have not ended.
struct HeldUp {
  std::shared_ptr<Run> run;  // null: none
  std::vector<StreamItem> ahead;
};

/// A queue of batches. The Runs of a batch go on together; the next batch begins when all are done. Semantics
/// of a CUDA stream: order is that of the calls. Calls queue; a short one on an idle stream may be made at
/// once.
///
/// Owner: the handle, or the communicator for its default stream; kept alive by the Runs in it. Any thread.
/// Failure: the first error of a Run is kept until synchronize() or query() tells it; the Runs behind it go
/// on.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream() : Stream(std::nullopt) {}
  /// Stands for `native`, a stream of the caller's for the kind of memory that its Runs' executors are for. A
  /// batch begins when `native` has come to it; `native` goes on when the batch is done.
  explicit Stream(std::optional<void*> native);
  ~Stream();

  /// Before the Run gets its number: reads what it needs of the executor's memory. Waits for all that a native
  /// stream was given before. Error: Executor::read()'s.
  Status prepare(Run& run) const;
  /// Appends a batch of Runs that hold this stream (Run::holds), to be submitted to the engines next. When
  /// the batches before it are done, it takes one hold from each Run, and releases those that nothing holds
  /// any more: at once if there are none before. Error: there is no place in the native stream, and the Runs
  /// must be rejected. Throws bad_alloc; the Runs must be rejected then too.
  Status append(std::vector<StreamItem> batch);
  /// Of Runs that are to be appended to several streams: what they need of other ranks is asked for before any
  /// of them waits for that. Error: as append().
  Status announce(const std::vector<StreamItem>& items) const;
  /// Whether append() of these may wait for other ranks: see Executor.
  bool mayWait(const std::vector<StreamItem>& items) const;
  /// Nothing is queued, and no error waits to be told.
  bool idle() const { return idle_.load(std::memory_order_acquire); }
  /// Waits for all that was queued before the call, and drives meanwhile. Returns, and forgets, the first
  /// error that has not been told.
  Status synchronize();
  /// Code::inProgress while anything is queued; else the error, as synchronize(). Does not wait.
  Status query();
  /// The Run of an engine's call, if it is in some stream of this process and its turn has not come. Looks
  /// through everything that is queued. Any thread.
  static HeldUp heldUp(const Engine& engine, uint64_t scope, uint64_t sequence);
  /// In a forked child: what is queued stays with the parent, and calls are errors (invalidUsage).
  void closeAfterFork() { inherited_ = true; }

 private:
  struct Batch {
    std::vector<StreamItem> items;
    size_t left = 0;
    std::unique_ptr<StreamGate> gate;  // of the native stream
    enum class Turn { entering, cameAtOnce, entered };
    std::atomic<Turn> turn{Turn::entering};
  };
  HeldUp heldUpHere(const Engine& engine, uint64_t scope, uint64_t sequence);
  void onRunDone(Batch& batch, Run& run);
  static void onTurn(Batch& batch);
  static void release(Batch& batch);
  Status takeError();
  Status usable() const;

  const std::optional<void*> native_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Batch>> batches_;
  Status error_;
  std::atomic<bool> idle_{true};  // of the two above
  std::atomic<bool> inherited_{false};
};

/// What stands for `native`, one of the caller's streams for the executor's kind of memory: the same object for
/// all communicators of this process while anything is queued there. Any thread.
std::shared_ptr<Stream> nativeStream(const Executor& executor, void* native);

/// Gives Runs to their engines, in this order.
void submit(std::span<const StreamItem> items);

}  // namespace eccl::runtime
