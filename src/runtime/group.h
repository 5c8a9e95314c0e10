// GroupStart and GroupEnd: calls of one thread that are issued together.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/handles.h"

namespace eccl {

/// One per thread. Calls outside a group are a group of one.
class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  void start() { ++depth_; }
  /// Issues everything when the outermost group ends. Its error is the first of any call in the group.
  Status end();

  /// The same without issuing anything: *microseconds = what the calls are expected to take. Inits and splits
  /// in the group are an error.
  Status simulateEnd(double* microseconds);

  /// A validated call. Outside a group it is issued at once.
  Status add(ecclComm_t comm, std::shared_ptr<Communicator> communicator, std::shared_ptr<Stream> stream,
             bool nullStream, Call call);
  /// Something that blocks until other ranks do the same (init, split). In a group all of them run side by
  /// side.
  Status addJob(std::function<Status()> job);
  /// A call of the group was refused: the group will issue nothing.
  Status refuse(Status status);

 private:
  struct Entry {
    ecclComm_t comm;
    std::shared_ptr<Communicator> communicator;
    std::shared_ptr<Stream> stream;
    bool nullStream;
    Call call;
  };
  Status issue(std::vector<Entry> entries, bool grouped);
  static Status runJobs(std::vector<std::function<Status()>> jobs);

  int depth_ = 0;
  Status error_;
  std::vector<Entry> entries_;
  std::vector<std::function<Status()>> jobs_;
};

}  // namespace eccl
