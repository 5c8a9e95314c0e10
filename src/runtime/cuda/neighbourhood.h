// The ranks of a communicator that are threads of this process, and the rings between their GPUs.
//
// Where all ranks are here, and each GPU reaches the memory of every other, their lanes run on the GPUs. The
// rings lie in the memory of both (lanes/block_program.h). They are made when a call first needs them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/lanes/block_program.h"

namespace eccl::runtime::cuda {

/// Names a ring, as transport::ConnectionId does a connection.
using RingId = std::tuple<int32_t, int32_t, int16_t, int16_t>;  // from, to, channel, tag

/// A report of a call, and where its GPU finds it. Owner: the neighbourhood.
struct ReportPlace {
  lanes::Report* host = nullptr;
  Address device = 0;
};

/// Where a call's kernel waits for its turn on its GPU.
struct Queue {
  NativeStream stream = nullptr;
  bool legacy = false, blocking = false;  // the NULL stream; one that it waits for, and that waits for it
  bool ofThread = false;                  // each thread's own, by one handle

  /// Whether what is in the one runs before what is put into the other afterwards.
  bool holdsUp(const Queue& other) const {
    return (stream == other.stream && !ofThread) || (legacy && other.blocking) || (blocking && other.legacy);
  }
};

/// Shared by the ranks' executors; each has to leave. Any thread.
class Neighbourhood {
 public:
  /// The one of this communicator in this process, with the rank in it. `ranks`: of the communicator.
  static std::shared_ptr<Neighbourhood> of(uint64_t communicator, int rank, int ranks, Gpu& gpu);
  ~Neighbourhood();

  /// Once all ranks have told each other of themselves. Whether lanes run on the GPUs; else *why says why not.
  /// Found out once, so the same for all ranks.
  bool complete(std::string* why);
  /// Makes the GPU of `rank` reach the memory of the others. Its context is current.
  Status reach(int rank);
  /// How many blocks a call is worth, and how many each rank may have at once.
  uint32_t blocks() const { return blocks_; }
  uint32_t room() const { return room_; }

  /// The first `width` strips of a ring. Error: Gpu::take()'s.
  struct RingStrip {
    lanes::AtReceiver* receiver;
    lanes::AtSender* sender;
  };
  Result<std::vector<RingStrip>> ring(const RingId& id, uint32_t width);
  bool near(int a, int b) const { return gpus_[static_cast<size_t>(a)] == gpus_[static_cast<size_t>(b)]; }

  /// A call of a rank. `number`: of its collectives, or 0 for a Send or Recv. `launch`: calls of several ranks
  /// that are one kernel have the same.
  struct Entry {
    int rank;
    Queue queue;
    uint64_t number, launch;
  };
  /// A report for a call that begins now, and back when it is over. The GPU's context is current. Error
  /// (invalidUsage): the call would come behind one of another rank that waits for it.
  Result<ReportPlace> begin(const Entry& entry);
  void end(const ReportPlace& report);
  /// A kernel was never seen to end. It may begin later, and look at memory of the communicator before it finds
  /// that it was aborted: that memory is not used again.
  bool lost() const { return lost_; }
  /// Where the kernels of a rank look for an abort, once it reaches the others.
  Address abortOf(int rank) {
    std::lock_guard lock(aborting_);
    return aborts_[static_cast<size_t>(rank)].device;
  }
  /// Ends the kernels of all ranks, which look for it while they wait. Returns at once.
  void abort();
  /// After abort(): returns when no kernel that had begun touches memory any more. One that begins later
  /// touches none. Where streams hold kernels back that cannot be told, so it returns 100 ms after the abort at
  /// the latest.
  void quiesce();

 private:
  std::string whatIsMissing();
  Neighbourhood(uint64_t communicator, int ranks)
      : communicator_(communicator), gpus_(static_cast<size_t>(ranks)), aborts_(gpus_.size()) {}
  struct Page {
    std::byte* host;
    Address device;
  };
  Result<Page> page(Gpu& gpu);
  /// Until that is so, or the time for an abort is over.
  void await(const std::function<bool()>& over) const;

  const uint64_t communicator_;
  std::mutex mutex_;
  std::vector<Gpu*> gpus_;  // by rank; null: it is not here
  uint32_t blocks_ = 0, room_ = 0;
  std::optional<std::string> missing_;
  struct Abort {
    lanes::AbortLine* host = nullptr;
    Address device = 0;
  };
  std::mutex aborting_;        // of the following
  std::vector<Abort> aborts_;  // by rank
  bool aborted_ = false;
  std::atomic<TimePoint> abortedAt_{};
  struct Ring {
    std::vector<RingStrip> strips;
    std::vector<std::tuple<Gpu*, Address, size_t>> memory;
  };
  std::map<RingId, Ring> rings_;
  std::map<lanes::Report*, Entry> outstanding_;
  std::vector<ReportPlace> reports_;  // not used now
  std::vector<std::pair<Gpu*, Pinned>> pages_;
  std::atomic<bool> lost_{false};
};

}  // namespace eccl::runtime::cuda
