// A Program with sizes: how blocks are cut into parts and tiles, where they lie, which connections carry it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "algorithms/library/algorithm.h"
#include "algorithms/selection/select.h"
#include "base/placement.h"
#include "program/plan_view.h"
#include "runtime/execution/call.h"
#include "runtime/execution/fast_path.h"
#include "transport/connect/connector.h"

namespace eccl::runtime {

/// Constant once bound, but for fastPath(). `view` points into `program` and the lists here, so a Plan stays
/// where it was made. Owner: shared by the cache and the Runs that use it. Threads: the driver's, but for
/// `program`, `algorithm` and fastPath().
struct Plan {
  std::shared_ptr<const Program> program;
  PlanView view;
  std::vector<BlockExtent> extents[kMemorySpaces];
  size_t scratchBytes = 0;
  size_t relayFlags = 0;  // streams: one for each repetition of every step
  size_t footprint = 0;   // bytes: Work::footprint
  /// By space: the bytes that its blocks take. Empty where others' lie between them.
  struct Bytes {
    size_t begin = 0, end = 0;
    bool posted = false;  // peers may write there: see Operand::posted
  };
  Bytes used[kMemorySpaces];
  std::vector<int32_t> relayedAt;                 // by step
  std::vector<int8_t> ahead;                      // by lane; see PlanView
  std::vector<uint8_t> joins;                     // the same
  uint32_t mostAhead = UINT32_MAX;                // messages to another rank that may be on their way at once
  std::vector<std::vector<int>> laneConnections;  // by lane: indices of Program::connections
  const char* algorithm = "";
  /// For calls made anew; null where it cannot take that path, or that is not known. Owned by the plan. Any
  /// thread may look, only the driver may use it.
  FastPath* fastPath() const { return fastPath_.load(std::memory_order_acquire); }
  /// Whether there is one: made now if it can be and all connections are ready. By the driver, with the plan
  /// bound. Throws bad_alloc.
  bool prepare(const Call& call, const CallRecord& record);

  /// Gets the connections of this rank, which may still be connecting. By the driver; later calls do nothing.
  /// `connections` is by Program::connections.
  void bind(transport::Connector& connector);
  std::vector<transport::Connection*> connections;
  /// What the executor keeps with it: Work::kept.
  std::shared_ptr<void> kept;

  /// Has the view point to what is here, but for connections.
  void completeView();
  /// The same plan for calls that graphs make, which have connections of their own. By the driver.
  std::shared_ptr<Plan> inGraphs();

 private:
  std::unique_ptr<FastPath> ownedFastPath_;
  std::atomic<FastPath*> fastPath_{nullptr};
  bool prepared_ = false;  // or found that it cannot be
  bool bound_ = false;
  std::shared_ptr<Plan> inGraphs_;
  std::vector<SendEnd*> senders_;
  std::vector<ReceiveEnd*> receivers_;
};

/// What planning depends on besides the call: the same on all ranks, but for `rank` and `verify`.
struct PlanContext {
  int rank = 0, ranks = 1;
  std::shared_ptr<const Placement> placement;  // that algorithms are built for
  RingShape ring;
  algorithms::SelectionTable selection;  // ECCL_ALGO, and the rules that ranks agreed on
  int channels = 0;                      // 0: chosen, within the two below
  int minChannels = 0, maxChannels = 0;  // 0: no bound
  bool verify = false;                   // prove each schedule before its first run
};

/// Makes plans and keeps them. Owner: the communicator. Threads: one at a time (those that make calls),
/// except where said.
class Planner {
 public:
  explicit Planner(PlanContext context) : context_(std::move(context)) {}

  /// What calls are chosen by. Any thread.
  const algorithms::SelectionTable& selection() const { return context_.selection; }
  /// The plan for a validated call; from the cache when the call is like one before. Errors: invalidUsage if
  /// ECCL_SLOTS or ECCL_SLOT_BYTES is too small for the schedule, internal if the verifier refutes it.
  Result<std::shared_ptr<Plan>> plan(const Call& call);
  /// Keeps none of them any more. Those in use live on.
  void forget() {
    plans_.clear();
    programs_.clear();
  }
  /// Plans that are kept. More shapes are rare: then all go, and those in use live on.
  static constexpr size_t kCached = 1024;

 private:
  Result<std::shared_ptr<const Program>> program(const algorithms::Algorithm& algorithm, int root,
                                                 int channels);
  /// Choice::tile, or what is usual for the algorithm.
  uint64_t tileOf(const algorithms::Choice& choice);
  /// `tileBytes`: see Choice.
  Result<std::shared_ptr<Plan>> make(const Call& call, std::shared_ptr<const Program> program,
                                     uint64_t tileBytes);
  Result<std::shared_ptr<Plan>> planPointToPoint(const Call& call);

  const PlanContext context_;
  std::map<std::tuple<const algorithms::Algorithm*, int, int>, std::shared_ptr<const Program>> programs_;
  std::map<const algorithms::Algorithm*, uint64_t> usualTiles_;
  std::unordered_map<CallKey, std::shared_ptr<Plan>, CallKeyHash> plans_;
};

/// Both sides make Sends of so many bytes and more, where they can. In a common cache, registered memory, half
/// a round trip of 512 KiB, 1 and 4 MiB takes .9, .67 and .5 of the time, streams .58, .62 and .57; of 256 KiB
/// streams of ordinary memory took 1.2 times as long (AMD EPYC, family 25 model 17, 2026-11-30;
/// perf/results/epyc-25-17/ways.md).
inline constexpr uint64_t kHalvesFrom = 1 << 19;
/// Whether these two do for so many bytes: they look at the same memory, have a core each, and no devices. What
/// only one of them knows makes no difference.
bool inHalves(const Placement& placement, int a, int b, uint64_t bytes);

/// The program of a Send or a Recv with `peer`; with itself, the copy that both are together. `halves`: where
/// each reaches the other's memory the receiver reads one half, while the sender writes the other one.
Program pointToPointProgram(Collective collective, int rank, int ranks, int peer, bool halves = false);

}  // namespace eccl::runtime
