// The ways to carry out a call, priced by the cost model.
#pragma once

#include <vector>

#include "algorithms/cost/cost_model.h"
#include "algorithms/selection/select.h"

namespace eccl::algorithms {

/// Microseconds of a call for which `choice` was made. `mostTiles` and errors: simulatedTime()'s.
Result<double> timeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                      const CostModel& model, int64_t mostTiles = kEnoughTiles);
/// Calls among more ranks are not simulated to be priced.
inline constexpr int kPricedRanks = 16;
/// So many of the ranks, evenly spread.
Placement someOf(const Placement& placement, int number);
/// timeOf() up to kPricedRanks; of more ranks, in bounded time and memory, from that of 4, 8 and 16 of them
/// with few tiles: how it grows when they are doubled goes on. Choices are made by the same.
Result<double> estimatedTimeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                               const CostModel& model);
/// Whether the ranks are where the algorithm wants them (Algorithm::where).
bool fits(const Algorithm& algorithm, const Placement& placement);
/// How many other ranks rank 0 sends to or receives from, as root where there is one.
int neighboursOf(const Algorithm& algorithm, const Placement& placement);

/// Between hosts, the flows of a rank with more neighbours than this crowd its port.
inline constexpr int kFewNeighbours = 4;
/// To each of many neighbours on other hosts so many bytes of long messages are to be on their way at once.
/// Measured: AlltoAll of 16 MiB among 8 hosts with two rails of 200 Mbit/s reaches .7 to .85 of the rails with
/// a megabyte, .9 to 1 with this.
inline constexpr uint64_t kAheadBytes = 128 << 10;
/// What a Choice::tile of 0 means: 0, which is a slot's worth, or half of kAheadBytes where rank 0 has many
/// neighbours and there are several hosts.
uint64_t usualTile(const Algorithm& algorithm, const Placement& placement);

/// Most bytes of a message, where ECCL_SLOT_BYTES says `asked`. 0: twice as many among ranks that share memory
/// and have a core each, for whom a message costs one to two microseconds besides its bytes. Between two, Sends
/// of 256 KiB take .6 of the time, AllReduce and AllGather of 1 MiB .7 to 1.0. Messages of 512 KiB were no
/// faster, and slower through slots, whose memory the caches then did not hold. Where ranks share cores neither
/// was better than 128 KiB (AMD EPYC, family 25 model 1, 2026-11-25; perf/results/epyc-25-1/thresholds.md).
/// Where all use UCX and none share memory or cores: its rendezvous costs more, and streams of 1 MiB and more take
/// .7 of the time in messages of 1 MiB (over TCP, AMD EPYC, family 25 model 17, 2026-11-30).
uint64_t slotBytesFor(int64_t asked, const Placement& placement);

/// `size` in messages of the choice's length; broadcasts in place, as nearly all programs do them.
CallSize sizeFor(const Choice& choice, CallSize size, const Placement& placement);

/// One way to carry out a call and what it is expected to take.
struct Candidate {
  Choice choice;
  double microseconds = 0;
};

/// All algorithms of a collective for blocks of `size`, also in shorter messages where these may fill a
/// pipeline of ranks sooner; the fastest first. Without those by which a rank has more than kMaxNeighbours,
/// which may be all.
/// With more than 16 ranks it is from 4, 8 and 16 of them that the time of all is estimated. Errors:
/// simulate()'s.
Result<std::vector<Candidate>> candidatesFor(Collective collective, const CallSize& size,
                                             const Placement& placement, const CostModel& model);

}  // namespace eccl::algorithms
