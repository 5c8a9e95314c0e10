// A host stream: work in order, across communicators.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/execution/engine.h"

namespace eccl::runtime {

/// One Run and the engine it runs on; `owner` keeps both alive.
struct StreamItem {
  std::shared_ptr<void> owner;
  Engine* engine = nullptr;
  std::shared_ptr<Run> run;
};

/// A queue of batches. The Runs of a batch go on together; the next batch begins when all are done. Semantics
/// of a CUDA stream: calls only queue, order is that of the calls. Owner: the handle, or the communicator for
/// its default stream; kept alive by the Runs in it. Any thread.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// Appends a batch, to be submitted to the engines next. Lowers Run::holds, and releases the Runs where that
  /// was the last one, when the batches before it are done: at once if there are none.
  void append(std::vector<StreamItem> batch);
  /// Nothing is queued, and no error waits to be told.
  bool idle() const { return idle_.load(std::memory_order_acquire); }
  /// Waits for all that was queued before the call. The first error since the last synchronize(), if any.
  Status synchronize();
  /// Code::inProgress while anything is queued, else like synchronize().
  Status query();
  /// In a forked child: what is queued stays with the parent.
  void closeAfterFork() { inherited_ = true; }

 private:
  struct Batch {
    std::vector<StreamItem> items;
    size_t left = 0;
  };
  void onRunDone(Batch& batch, Run& run);
  static void release(Batch& batch);
  Status takeError();
  Status usable() const;

  std::mutex mutex_;
  std::deque<std::shared_ptr<Batch>> batches_;
  Status error_;
  std::atomic<bool> idle_{true};  // of the two above
  std::atomic<bool> inherited_{false};
};

/// Gives Runs to their engines, in this order.
void submit(std::span<const StreamItem> items);

}  // namespace eccl::runtime
