// The order of calls that use the same connections.
//
// They follow one another, whatever streams they are in, as if they were in one. A call that is captured
// follows those before it in its graph; and a run of the graph follows the calls and the runs that were started
// before it, as those started later follow it. So the order in which a program starts calls and graphs is what
// all its ranks have to have in common.
#pragma once

#include <map>

#include "runtime/cuda/capture.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// Owner: the executor of a rank, shared with the graphs that its calls are in: they use the events. Under the
/// executor's lock. Destroyed by a thread that may call CUDA.
class CallOrder {
 public:
  /// What calls use that follow one another: a rank's collectives, its Sends to a peer, or its Recvs from it.
  using Line = std::pair<int, int>;

  /// The call's.
  static Line lineOf(const Work& work);

  explicit CallOrder(Gpu& gpu) : gpu_(gpu) {}
  ~CallOrder();
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;

  /// What `stream` is given from now on follows the last call of that line. The context is current for both.
  Status follow(const Line& line, NativeStream stream, const Capture& capture);
  /// A call of it has been put into `stream`.
  Status note(const Line& line, NativeStream stream, const Capture& capture);

 private:
  /// The stream of a call may be gone by the time of the next one, so events are recorded behind each.
  struct Last {
    Event behind = nullptr;   // the last call that was started
    Event inGraph = nullptr;  // the last one of the capture of that id
    uint64_t capture = 0;
  };
  Result<Last*> lastOf(const Line& line);

  Gpu& gpu_;
  std::map<Line, Last> last_;
};

}  // namespace eccl::runtime::cuda
