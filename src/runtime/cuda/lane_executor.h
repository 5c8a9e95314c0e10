// A GPU as an executor that has lanes run there, as blocks of threads (lanes/block_program.h).
//
// Ranks of one host whose GPUs reach each other's memory do without it: a call is one kernel in the caller's
// stream, which the host only watches. Ranks of several hosts may have it so, too: then the host carries what
// passes between hosts (relay.h). Other communicators, and calls whose lengths not all ranks know (the v
// calls), are staged (staged_executor.h).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "runtime/cuda/call_order.h"
#include "runtime/cuda/device_plan.h"
#include "runtime/cuda/rank_state.h"
#include "runtime/cuda/residents.h"
#include "runtime/cuda/staged_executor.h"

namespace eccl::runtime::cuda {

/// Owner and threads: as Executor says. Failure: as StagedExecutor; a kernel that finds a message of another
/// call, or sees that the communicator was aborted or destroyed, ends, and its stream goes on.
class LaneExecutor final : public StagedExecutor {
 public:
  /// `descriptors`: memory may be lent to other processes by these.
  LaneExecutor(Gpu& gpu, const ExecutorContext& context, bool descriptors)
      : StagedExecutor(gpu, context),
        residents_(Residents::of(gpu)),
        descriptors_(descriptors),
        ways_{context.connection, context.hasLeft, context.usesMemory} {}
  ~LaneExecutor() override;

  Result<std::string> introduce(uint64_t communicator, int rank, int ranks) override;
  Status meet(Meeting meeting) override;
  Status hear(int rank, std::string_view message) override;
  Result<transport::Fd> descriptorOf(const transport::DescriptorName& name) override;
  void fail() override;
  Status announce(std::span<Work* const> works) override;
  bool mayWait(void* stream, std::span<Work* const> works) override;
  Result<std::unique_ptr<StreamGate>> enter(void* stream, std::span<Work* const> works,
                                            std::function<void()> reached) override;
  bool takesScalar(Work& work, void* stream, const void* scalar) const override;
  bool relays() const override { return relays_; }
  Result<bool> relay(bool ending, const std::function<void(int)>& moved) override {
    return kept_->relay.advance(ending, moved, meeting_);
  }
  std::vector<int> relaysTo() override { return kept_->relay.waitsFor(); }
  std::optional<transport::Breakage> relayFailure(int rank) const override {
    return kept_->relay.failure(rank);
  }
  Status begin(Work& work) override { return work.carried ? Status() : StagedExecutor::begin(work); }
  LaneAnswer advance(Work& work, int32_t lane, int budget) override;
  Replays look(Work& captured) override;
  void cancel(Work& work) override;
  void quiesce(Work& work) override;
  void forAwaited(const Work& work, const std::function<void(int)>& visit) const override;
  bool carries(const Work& work) const override;

 private:
  struct Used;
  struct Run;

  /// Whether rings have to be made for it, for which other ranks are needed.
  bool lacksRings(const Work& work);
  /// Of what a graph's kernels send a relay would not know when.
  Result<bool> mayCarry(const Work& work, NativeStream stream) const;
  Result<std::shared_ptr<DevicePlan>> planOf(Work& work);
  RingId ringOf(const Work& work, const lanes::EndOf& end) const;
  Status offer(const Work& work);
  static Status offerAll(std::span<Work* const> works);
  Result<std::shared_ptr<DevicePlan>> begunPlanOf(const Work& work);
  Status prepare(Work& work, lanes::Calls& calls, uint32_t& blocks, const Queue& queue, uint64_t launch);
  static LaneAnswer faultOf(Work& work, const lanes::Report& report);
  Status checkRoom(std::span<Work* const> works) const;
  static bool isPair(const Work& work);
  static int placeOf(const Work& work);
  Neighbourhood::Entry entryOf(const Work& work, const Queue& queue, uint64_t launch) const;
  uint32_t blocksOf(const Work& work);
  std::vector<std::vector<Work*>> whatFits(const std::vector<Work*>& works) const;
  Status launch(std::span<Work* const> works, NativeStream stream);
  Status launchOne(const std::vector<Work*>& works, DataType type, const Queue& queue);

  Residents& residents_;
  const bool descriptors_;
  const Relay::Ways ways_;
  int rank_ = 0;
  std::shared_ptr<Neighbourhood> neighbours_;
  std::shared_ptr<RankState> kept_;      // graphs have it, too
  std::atomic<bool> introduced_{false};  // what is above is there
  Meeting meeting_;
  bool onDevice_ = false;            // all ranks' lanes run on GPUs
  uint32_t sharers_ = 0;             // ranks on this one's GPU, of which Residents know
  std::atomic<bool> relays_{false};  // messages with some ranks pass through the host

  std::mutex mutex_;             // held while a call is prepared and launched; of what follows
  uint64_t nextCollective_ = 0;  // the least number that may come
};

}  // namespace eccl::runtime::cuda
