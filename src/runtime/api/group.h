// GroupStart and GroupEnd: calls of one thread that are issued together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/api/handles.h"

namespace eccl::runtime {

/// One per thread. Calls outside a group are a group of one.
class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// When the outermost group ends, issues everything and waits for the calls with the NULL stream of blocking
  /// communicators. Its error is the first of any call in the group; if one was refused, nothing is issued.
  Status end();

  /// The same without issuing anything: *microseconds = what the calls are expected to take. Inits and splits
  /// in the group are an error.
  Status simulateEnd(double* microseconds);

  /// A validated call on `communicator`. `stream`: null is the NULL stream. Outside a group it is issued at
  /// once.
  Status add(ecclComm_t comm, const CommunicatorUse& use, std::shared_ptr<Stream> stream, Call call);
  /// Something that blocks until other ranks do the same (init, split). In a group all of them run side by
  /// side. `refused` is ok; if not, the group will issue nothing and the job is only to clean up.
  using Job = std::function<Status(const Status& refused)>;
  Status addJob(Job job);
  /// How a call for the group went. If it was refused, an open group will issue nothing.
  void judge(const Status& status) noexcept;

 private:
  struct Entry {
    ecclComm_t comm;
    std::shared_ptr<Stream> stream;
    bool nullStream;
    Call call;
  };
  static Status issue(std::vector<Entry> entries);
  static Status runJobs(const std::vector<Job>& jobs);

  int depth_ = 0;
  Status error_;
  std::vector<Entry> entries_;
  std::vector<Job> jobs_;
};

/// apiCall() for what a group collects.
template <class Body>
ecclResult_t groupCall(const char* function, ecclComm_t comm, Body&& body) noexcept {
  return apiCall(function, comm, body, [](const Status& status) { Group::ofThisThread().judge(status); });
}

/// What ecclStreamSynchronize and ecclStreamQuery mean by the NULL stream: the calls that this thread has made
/// with it on non-blocking communicators. Others' calls are not waited for, so that no thread hangs for want of
/// another's.
class NullStream {
 public:
  static NullStream& ofThisThread();

  /// A call was put into the default stream of a communicator.
  void remember(const std::shared_ptr<Stream>& stream);
  /// See Stream; the first error of any.
  Status synchronize();
  Status query();

 private:
  std::vector<std::weak_ptr<Stream>> streams_;
};

}  // namespace eccl::runtime
