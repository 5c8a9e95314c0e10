#include "algorithms/selection/candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

namespace eccl::algorithms {
namespace {

/// Shorter messages fill a pipeline of ranks sooner, and cost a move each.
constexpr uint64_t kTiles[] = {16384, 49152};
/// Where slots hold so much (slotBytesFor()), others go on in messages as long as elsewhere.
constexpr uint64_t kLongSlot = 1 << 20, kTileOfLongSlots = 128 << 10;
/// Between hosts, channels keep links busy while a rank adds up what has come. Where a rank has many neighbours
/// they would only add to the flows that meet at a port. Among ranks that share memory more than one are not
/// looked at: two were no faster beyond the spread, as one driver runs all lanes.
constexpr int kNetworkChannels = 4;
/// They have to be faster by this factor, and by these microseconds: sockets to look at, more than are polled
/// one by one, and credits to send are not priced (2 hosts, AllReduce by direct, AMD EPYC, one channel and
/// four: 128 KiB 103 and 225 us, 256 KiB 159 and 278, 512 KiB 668 and 415).
constexpr double kChannelsGain = 1.1, kChannelsCost = 100;
/// So much faster has AlltoAll to be that hands long blocks to ranks of its own host first: that they arrive in
/// turns, and links stand still meanwhile, is not priced (4 hosts with 2 ranks and two rails, AMD EPYC: 128 KiB
/// to each take 33 ms directly and 43 to 53 by rail, 2 MiB 533 and 621; the model takes them for equal).
constexpr double kRelayGain = 1.1;
constexpr uint64_t kLongBlock = 32 << 10;
constexpr int kPipeline = 3;  // ranks
/// Times that differ by less are equal.
constexpr double kRounding = 1.001;
constexpr uint64_t kFewSlots = 8;  // of more messages it matters little when the first arrive

int neighboursOf(const Program& program) {
  std::set<int> peers;
  for (const ConnectionSpec& connection : program.connections) peers.insert(connection.peer);
  return static_cast<int>(peers.size());
}

/// With few tiles, as algorithms are to be told apart and there are many to be priced: half of them after all
/// slots have been used.
Result<double> fewTilesTimeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                              const CostModel& model) {
  return timeOf(choice, size, placement, model, 4 * size.slots + 2);
}

/// fewTilesTimeOf() of all ranks from that of 4, 8 and 16 of them: how it grows when they are doubled, goes on.
/// That is by as much again where there are log2 n rounds, by twice as much where there are n, by half as much
/// where bytes come near a limit.
Result<double> grownTimeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                           const CostModel& model) {
  std::array<double, 3> times;
  for (size_t i = 0; i < times.size(); ++i) {
    ECCL_ASSIGN(times[i],
                fewTilesTimeOf(choice, size, someOf(placement, kPricedRanks >> (times.size() - 1 - i)), model));
  }
  const double before = times[1] - times[0];
  double more = times[2] - times[1], time = times[2];
  if (more <= 0) return time;
  const double growth = before > 0 ? std::exp2(std::clamp(std::round(std::log2(more / before)), -1.0, 2.0)) : 1;
  for (double ranks = kPricedRanks; ranks < placement.ranks(); ranks *= 2) {
    more *= growth;
    time += more * std::min(1.0, std::log2(placement.ranks() / ranks));
  }
  return time;
}

/// Of sorted ones, those that relay and are not clearly faster than the fastest that does not.
void dropRelays(std::vector<Candidate>& candidates) {
  const auto relays = [](const Candidate& one) { return one.choice.algorithm->hierarchical(); };
  const auto other = std::find_if_not(candidates.begin(), candidates.end(), relays);
  if (other == candidates.end()) return;
  const double limit = other->microseconds / kRelayGain;
  std::erase_if(candidates, [&](const Candidate& one) { return relays(one) && one.microseconds >= limit; });
}

/// What choices are made by.
Result<double> roughTimeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                           const CostModel& model) {
  if (placement.ranks() <= kPricedRanks) return fewTilesTimeOf(choice, size, placement, model);
  // Of few ranks bytes may hide the rounds that are what counts among many: nothing takes less than those.
  CallSize little = size;
  little.elements = std::min<uint64_t>(size.elements, kPricedRanks);
  ECCL_ASSIGN(const double rounds, grownTimeOf(choice, little, placement, model));
  ECCL_ASSIGN(const double time, grownTimeOf(choice, size, placement, model));
  return std::max(rounds, time);
}

}  // namespace

Placement someOf(const Placement& placement, int number) {
  std::vector<int> some;
  for (int i = 0; i < number; ++i)
    some.push_back(static_cast<int>(static_cast<int64_t>(i) * placement.ranks() / number));
  return placement.of(some);
}

Result<double> estimatedTimeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                               const CostModel& model) {
  return placement.ranks() <= kPricedRanks ? timeOf(choice, size, placement, model)
                                           : roughTimeOf(choice, size, placement, model);
}

bool fits(const Algorithm& algorithm, const Placement& placement) {
  switch (algorithm.where) {
    case Where::anywhere:
      return true;
    case Where::severalHosts:
      return placement.spansHosts();
    case Where::sharedHosts:
      return placement.hierarchical();
  }
  return false;
}

int neighboursOf(const Algorithm& algorithm, const Placement& placement) {
  return neighboursOf(algorithm.build({algorithm.collective, placement.ranks(), 0}, placement, 0, 1));
}

uint64_t slotBytesFor(int64_t asked, const Placement& placement) {
  if (asked > 0) return static_cast<uint64_t>(asked);
  if (placement.oversubscribed()) return 128 << 10;
  if (placement.sharesMemory()) return 256 << 10;
  const bool byUcx = std::ranges::all_of(placement.ucx, [](bool its) { return its; });
  const std::set<int> memories(placement.memory.begin(), placement.memory.end());
  return byUcx && memories.size() == placement.memory.size() ? kLongSlot : 128 << 10;
}

uint64_t usualTile(const Algorithm& algorithm, const Placement& placement) {
  return placement.spansHosts() && neighboursOf(algorithm, placement) > kFewNeighbours ? kAheadBytes / 2 : 0;
}

CallSize sizeFor(const Choice& choice, CallSize size, const Placement& placement) {
  const uint64_t tile = choice.tile > 0 ? choice.tile : usualTile(*choice.algorithm, placement);
  if (tile > 0) size.slotBytes = std::min(size.slotBytes, tile);
  size.inPlace = choice.algorithm->collective == Collective::broadcast;
  return size;
}

Result<double> timeOf(const Choice& choice, const CallSize& size, const Placement& placement,
                      const CostModel& model, int64_t mostTiles) {
  const CollectiveShape shape{choice.algorithm->collective, placement.ranks(), 0};
  return model.predict(*choice.algorithm, buildAll(*choice.algorithm, shape, placement, choice.channels),
                       sizeFor(choice, size, placement), placement, mostTiles);
}

Result<std::vector<Candidate>> candidatesFor(Collective collective, const CallSize& size,
                                             const Placement& placement, const CostModel& model) {
  std::vector<Candidate> candidates;
  auto add = [&](const Choice& choice, std::optional<double> limit = {}) -> Result<double> {
    ECCL_ASSIGN(const double time, roughTimeOf(choice, size, placement, model));
    if (!limit || time < *limit) candidates.push_back({choice, time});
    return time;
  };
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !fits(algorithm, placement)) continue;
    const Program program = algorithm.build({collective, placement.ranks(), 0}, placement, 0, 1);
    const int neighbours = neighboursOf(program);
    if (neighbours > kMaxNeighbours) continue;
    ECCL_ASSIGN(const double alone, add({&algorithm}));
    const uint64_t part = size.elements * size.elementBytes / static_cast<uint64_t>(program.parts);
    if (placement.spansHosts() && neighbours <= kFewNeighbours && part >= kNetworkChannels * kTiles[0])
      ECCL_TRY(add({&algorithm, kNetworkChannels}, alone / kChannelsGain - kChannelsCost).status());
    if (placement.ranks() < kPipeline) continue;
    for (uint64_t tile : kTiles)
      if (tile < part && tile < size.slotBytes && part <= kFewSlots * size.slotBytes)
        ECCL_TRY(add({&algorithm, 1, tile}).status());
    if (size.slotBytes >= kLongSlot && part > kTileOfLongSlots)
      ECCL_TRY(add({&algorithm, 1, kTileOfLongSlots}).status());
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
  // Among two ranks some algorithms are alike but for rounding: the first of the list.
  const auto differs = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& each) {
    return each.microseconds > candidates.front().microseconds * kRounding;
  });
  const auto first = std::min_element(candidates.begin(), differs, [](const Candidate& a, const Candidate& b) {
    return a.choice.algorithm < b.choice.algorithm;
  });
  std::rotate(candidates.begin(), first, differs);
  if (collective == Collective::allToAll && size.elements * size.elementBytes > kLongBlock)
    dropRelays(candidates);
  return candidates;
}

}  // namespace eccl::algorithms
