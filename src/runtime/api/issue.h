// How the calls of a group get into their streams and engines, and how sends and receives of a rank to itself
// are paired.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "runtime/api/group_calls.h"
#include "runtime/api/handles.h"

namespace eccl::runtime {

/// What each stream gets.
class Batches {
 public:
  void add(const std::shared_ptr<Stream>& stream, StreamItem item);
  /// Gives it to them. Error: Stream::append()'s.
  Status append();
  /// The same in advance, as far as other ranks need to know. Error: as append().
  Status announce() const;
  /// Whether append() may wait for other ranks, and may be called by another thread. False if there are several
  /// streams: with some of them only this thread has to do.
  bool mayWait() const;

 private:
  std::vector<std::pair<std::shared_ptr<Stream>, std::vector<StreamItem>>> batches_;
};

/// What Communicator::enqueue() does for one call, for all of a group. All calls are planned: nothing has
/// happened yet if one cannot be. Each communicator numbers its calls in the order in which they were made,
/// whatever their streams: the same order as on the other ranks. Streams give all calls that the group puts
/// into them one place. Then the engines get the calls, again in their order; those whose place is not the
/// first wait in the engine.
///
/// Threads: one at a time.
class Issue {
 public:
  /// Errors: of handles, or of a call that cannot be made.
  Status plan(const GroupCalls& group);
  /// From their numbers on the other ranks count on the calls. Error: as finish().
  Status number();
  /// Whether finish() may wait for other ranks in place of a caller who does not want to: on one non-blocking
  /// communicator. Where there are several, to abort one must not wait for another one's ranks.
  bool mayWait() const;
  /// Error: the communicators of calls that will not be made have failed.
  Status finish();
  /// finish() in a thread of its own: until it is through, or has failed, the communicator is not usable and
  /// says so. inProgress, or finish()'s error where there can be no thread.
  static Status goOnInBackground(std::shared_ptr<Issue> issue);

  /// Those that have calls.
  std::vector<std::shared_ptr<Communicator>> communicators() const;

 private:
  /// Calls of one communicator, in their order.
  struct Calls {
    CommunicatorUse use;
    std::vector<Call> calls;
    /// By call: those it has its place in. Two for a copy to oneself whose Send and Recv are on different ones.
    std::vector<std::vector<std::shared_ptr<Stream>>> streams;
    std::vector<StreamItem> items;  // when they are planned
  };
  static Status pairSelfSends(Calls& its);
  Status rejectIf(const Status& failed);

  std::vector<Calls> all_;
  Batches batches_;
  size_t numbered_ = 0, submitted_ = 0;
  std::vector<std::unique_lock<VisibleLock>> held_;  // from number() to finish(): see Communicator::number()
};

}  // namespace eccl::runtime
