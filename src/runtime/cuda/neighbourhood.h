// The ranks of a communicator, as one process sees them.
//
// Where each GPU reaches the memory of every other of its host their lanes run on the GPUs, if all ranks are on
// one host, or messages between hosts may be relayed (relay.h). The calls of this process's ranks have reports
// here, and are aborted together.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/system.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/gpu_introduction.h"
#include "runtime/cuda/rings.h"
#include "runtime/executor/executor.h"

namespace eccl::runtime::cuda {

/// A report of a call, and where its GPU finds it. Owner: the neighbourhood.
struct ReportPlace {
  lanes::Report* host = nullptr;
  Address device = 0;
};

/// Where a call's kernel waits for its turn on its GPU.
struct Queue {
  NativeStream stream = nullptr;
  // The NULL stream, which has two handles; one that it waits for, and that waits for it.
  bool legacy = false, blocking = false;
  bool ofThread = false;  // each thread's own, by one handle
  Capture capture;        // it is a part of a graph, which may run any number of times

  /// Whether what is in the one runs before what is put into the other afterwards.
  bool holdsUp(const Queue& other) const {
    if (capture.id != other.capture.id) return false;
    return (stream == other.stream && !ofThread) || (legacy && (other.legacy || other.blocking)) ||
           (blocking && other.legacy);
  }
};

/// Shared by the executors of this process's ranks; each has to leave. Any thread.
class Neighbourhood {
 public:
  /// The one of this communicator in this process, with the rank in it. `ranks`: of the communicator.
  static std::shared_ptr<Neighbourhood> of(uint64_t communicator, int rank, int ranks, Gpu& gpu);
  ~Neighbourhood();

  /// What the others have to know of a rank of this process. `descriptors`: memory may be lent by these. The
  /// context of its GPU is current.
  std::string introduce(int rank, bool descriptors);
  /// Once all ranks have introduced themselves. Whether lanes run on the GPUs, the same on all ranks; else *why
  /// says why not. Collective where ranks are in several processes of one host. Error: Meeting::gather's;
  /// (remote) what a rank has said is no introduction.
  Result<bool> meet(const Meeting& meeting, std::string* why);
  /// Makes the GPU of `rank` reach the memory of the others. Its context is current.
  Status reach(int rank);
  /// How many blocks a call is worth, and how many each rank may have at once.
  uint32_t blocks() const { return blocks_; }
  uint32_t room() const { return room_; }
  uint64_t communicator() const { return communicator_; }
  /// How many ranks have the GPU of this one.
  uint32_t sharers(int rank) const;
  /// The rank's place among those of them that are in this process.
  int place(int rank) const;

  /// Those between its ranks.
  Rings& rings() { return rings_; }
  /// In this process.
  bool isHere(int rank) const { return gpus_[static_cast<size_t>(rank)] != nullptr; }
  /// Once they have met: messages between two ranks pass through the host.
  bool relayed(int a, int b) const {
    return a != b && (relays_ == Relays::all ||
                      members_[static_cast<size_t>(a)].boot != members_[static_cast<size_t>(b)].boot);
  }
  /// Both are in this process, and on one GPU, and use it.
  bool near(int a, int b) const {
    return !relayed(a, b) && gpus_[static_cast<size_t>(a)] != nullptr &&
           gpus_[static_cast<size_t>(a)] == gpus_[static_cast<size_t>(b)];
  }

  /// A call of a rank. `number`: of its collectives, or in its pair, from 1 on; 0: it waits for nobody.
  /// `launch`: calls of several ranks that are one kernel have the same. `peer`: of a Send or Recv, else -1.
  struct Entry {
    int rank;
    Queue queue;
    uint64_t number, launch;
    int peer = -1;
    bool sends = false;
    size_t bytes = 0;
    /// Whether it waits for that call of another rank, made after it. A Send waits for nobody that has less
    /// than so many bytes.
    bool waitsFor(const Entry& later, size_t waitsFrom) const {
      if (number == 0 || later.number == 0 || later.number > number) return false;
      if (peer < 0) return later.peer < 0;
      return peer == later.rank && rank == later.peer && sends != later.sends && (!sends || bytes >= waitsFrom);
    }
  };
  /// A report for a call that begins now, and back when it is over. The GPU's context is current. Error
  /// (invalidUsage): the call would come behind one of another rank that waits for it.
  Result<ReportPlace> begin(const Entry& entry);
  /// A captured call is over when its graph is.
  void end(const ReportPlace& report);
  /// A kernel was never seen to end. It may begin later, and look at memory of the communicator before it finds
  /// that it was aborted: that memory is not used again.
  bool lost() const { return lost_; }
  /// Where the kernels of a rank look for an abort, once it reaches the others.
  Address abortOf(int rank) {
    std::lock_guard lock(aborting_);
    return aborts_[static_cast<size_t>(rank)].device;
  }
  /// The rank's kernels, where graphs still run any, end at once and touch nothing.
  void leave(int rank);
  /// Ends the kernels of all ranks, which look for it while they wait. Returns at once.
  void abort();
  /// After abort(): returns when no kernel that had begun touches memory any more. One that begins later
  /// touches none. Where streams hold kernels back that cannot be told, so it returns 100 ms after the abort at
  /// the latest; as it does while there are captured calls, and where kernels of `others`, other processes,
  /// write to this one's memory: these find no places any more, and hear of the abort by the control tree.
  void quiesce(bool others);

 private:
  Neighbourhood(uint64_t communicator, int ranks);
  Status read(const Meeting& meeting);
  std::string whatIsMissing();
  std::string whatIsMissing(Gpu& gpu) const;
  std::string whatIsClosed(LendBy by, const Meeting& meeting);
  struct Page {
    std::byte* host;
    Address device;
  };
  Result<Page> page(Gpu& gpu);
  /// Until that is so, or the time for an abort is over.
  void await(const std::function<bool()>& over) const;

  const uint64_t communicator_;
  std::mutex mutex_;
  std::vector<Gpu*> gpus_;                // by rank; null: it is in another process
  std::vector<GpuIntroduction> members_;  // by rank; as new: it has said nothing
  Relays relays_ = Relays::none;
  uint32_t blocks_ = 0, room_ = 0;
  std::optional<std::string> missing_;  // as this process sees it
  struct Abort {
    lanes::AbortLine* host = nullptr;
    Address device = 0;
    void raise();
  };
  std::mutex aborting_;        // of the following
  std::vector<Abort> aborts_;  // by rank
  bool aborted_ = false;
  std::atomic<TimePoint> abortedAt_{};
  Rings rings_;
  std::map<lanes::Report*, Entry> outstanding_;
  std::vector<ReportPlace> reports_;  // not used now
  std::vector<std::pair<Gpu*, Pinned>> pages_;
  std::atomic<bool> lost_{false};
};

}  // namespace eccl::runtime::cuda
