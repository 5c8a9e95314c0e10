// Groups: calls of one thread between ecclGroupStart and ecclGroupEnd that are issued together. Also the NULL
// stream of a thread.
//
// A group is issued in four steps. Its jobs are done. All its calls are planned. The calls of each
// communicator are numbered, in the order in which they were made. Each stream gets its calls as one batch,
// and the engines get them. An error before the numbers leaves no trace of the calls; a later one fails the
// communicators that have numbered theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/api/group_calls.h"
#include "runtime/api/process.h"

namespace eccl::runtime {

/// The open group of one thread. Calls outside of any are a group of one. Owner and thread: its thread, which
/// alone uses it. Failure: of a call in a group, by end().
class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  /// Opens a group, or one within it.
  void start() { ++depth_; }
  /// Closes a group. The outermost one issues everything, and waits for the calls with the NULL stream on
  /// blocking communicators. inProgress: Issue goes on in the background. Its error is the first of any call in
  /// the group. If a call was refused, nothing is issued, and jobs are only told to clean up. Error
  /// (invalidUsage): none is open.
  Status end();

  /// As end() without issuing anything: *microseconds = what the calls are expected to take. Collectives of a
  /// communicator count one after the other, its sends and receives side by side, and so do communicators.
  /// Errors: inits and splits in the group, an inner group, none open (invalidUsage), or the estimator's.
  Status simulateEnd(double* microseconds);

  /// Adds a validated call on a communicator. `stream`: null is the NULL stream. Outside a group the call is
  /// issued at once, and with the NULL stream on a blocking communicator it is complete on return. An error
  /// there is the call's.
  /// `handle`: of the stream.
  Status add(ecclComm_t comm, const CommunicatorUse& use, ecclStream_t handle, std::shared_ptr<Stream> stream,
             Call call);
  /// Adds a Send or Recv to an open group if it is valid, and on the communicator and stream of the call
  /// before: little is left to look up then. False: it has to go the whole way. May throw bad_alloc.
  bool addAnother(ecclComm_t comm, ecclStream_t stream, const PlainCall& call);
  /// The same for one that differs from the call before in its buffers alone. False: addAnother() may still do,
  /// as where the memory for it has to be got.
  bool addAlike(ecclComm_t comm, ecclStream_t stream, const PlainCall& call) noexcept {
    const CallBuffers& its = call.buffers;
    return comm != nullptr && comm == last_.comm && stream == last_.stream && last_.taken == handlesTaken() &&
           (call.key.collective == Collective::send ? its.send : its.receive) != nullptr &&
           calls_.addAlike(call);
  }
  /// Something that blocks until other ranks do the same (init, split). In a group all of them run side by
  /// side. `refused` is ok; if not, the group will issue nothing and the job is only to clean up.
  using Job = std::function<Status(const Status& refused)>;
  /// Adds a job. Outside a group it is done at once, and its Status returned.
  Status addJob(Job job);
  /// Tells the group how a call went. If it was refused, an open group will issue nothing.
  void judge(const Status& status) noexcept;

 private:
  static Status issue(const GroupCalls& group);
  static std::optional<Status> repeat(const GroupCalls& group);
  static Status runJobs(const std::vector<Job>& jobs);
  /// While it is the same, each handle that was valid still is.
  uint64_t handlesTaken() const { return process_.communicators.taken() + process_.streams.taken(); }

  Process& process_ = Process::get();
  int depth_ = 0;
  Status error_;
  GroupCalls calls_;
  std::vector<Job> jobs_;
  /// Of the last call in the open group, if it is of a host's communicator.
  struct {
    ecclComm_t comm = nullptr;
    ecclStream_t stream = nullptr;
    int ranks = 0;
    uint64_t taken = UINT64_MAX;  // handlesTaken() before they were found to be valid, for a Send or Recv
  } last_;
};

/// apiCall() for calls that a group collects.
template <class Body>
ecclResult_t groupCall(const char* function, ecclComm_t comm, Body&& body) noexcept {
  return apiCall(function, comm, body, [](const Status& status) { Group::ofThisThread().judge(status); });
}

/// The NULL stream of ecclStreamSynchronize and ecclStreamQuery: the calls that this thread has made with it
/// on non-blocking communicators. Calls of other threads are not waited for, so that no thread hangs because
/// another does nothing. Owner and thread: its thread. Keeps no stream alive.
class NullStream {
 public:
  static NullStream& ofThisThread();

  /// Remembers that a call was put into the default stream of a communicator.
  void remember(const std::shared_ptr<Stream>& stream);
  /// See Stream. Both return the first error of any of the streams.
  Status synchronize();
  Status query();

 private:
  std::vector<std::weak_ptr<Stream>> streams_;
};

}  // namespace eccl::runtime
