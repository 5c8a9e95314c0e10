#include "algorithms/measured_rules.h"

#include <climits>
#include <cstdint>

namespace eccl {
namespace {

struct Rule {
  Collective collective;
  int ranks;  // up to this many
  size_t bytes;
  const char* name;
  bool oneHost = false;  // only then
};

constexpr bool kOneHost = true;
constexpr int kAnyRanks = INT_MAX;
constexpr size_t kAnySize = SIZE_MAX, KiB = 1024, MiB = 1024 * KiB;
/// As many contributions as one step reduces, and an exchange of everybody with everybody is still cheap:
/// its connections are 2(n-1) per rank, each with slots of its own.
constexpr int kFew = kMaxOperands;

/// The first rule that fits counts. For ranks on CPU hosts, where a round costs about a microsecond (the
/// peer has to notice, and may have to be scheduled) and a byte 0.1 to 0.2 ns to move:
///   up to a few KiB    rounds are all that counts: one round among few ranks, log2 n rounds otherwise;
///   up to about 1 MiB  few rounds still beat the ring's 2(n-1), whose parts would be a few KiB each;
///   above              bytes count: ring and chain send each byte the fewest times, to one neighbour.
constexpr Rule kRules[] = {
    {Collective::allReduce, kFew, 4 * KiB, "oneshot"},
    // In memory that all reach, direct moves no byte more than it must; of two ranks the ring does so as well,
    // in lock-step, and finds what it just wrote in the caches (6.7 to 7.7 ms for 64 MiB, AMD EPYC, 2026).
    {Collective::allReduce, 2, 1 * MiB, "direct", kOneHost},
    {Collective::allReduce, 2, kAnySize, "ring", kOneHost},
    {Collective::allReduce, kFew, kAnySize, "direct", kOneHost},
    {Collective::allReduce, kFew, 1 * MiB, "direct"},
    {Collective::allReduce, kAnyRanks, 32 * KiB, "recursive"},
    // Any number of ranks alike, where recursive has to fold.
    {Collective::allReduce, kAnyRanks, 1 * MiB, "tree"},
    {Collective::allReduce, kAnyRanks, kAnySize, "ring"},

    // Here all algorithms send n-1 messages; they differ in rounds and neighbours.
    {Collective::allGather, kFew, kAnySize, "direct", kOneHost},
    {Collective::allGather, kFew, 128 * KiB, "direct"},
    {Collective::allGather, kAnyRanks, 8 * KiB, "recursive"},
    {Collective::allGather, kAnyRanks, kAnySize, "ring"},
    {Collective::reduceScatter, kFew, kAnySize, "direct", kOneHost},
    {Collective::reduceScatter, kFew, 128 * KiB, "direct"},
    {Collective::reduceScatter, kAnyRanks, 8 * KiB, "recursive"},
    {Collective::reduceScatter, kAnyRanks, kAnySize, "ring"},
    // A ring waits for its longest block in every round; direct sends each at its own pace.
    {Collective::allGatherv, kFew, kAnySize, "direct"},
    {Collective::allGatherv, kAnyRanks, 8 * KiB, "recursive"},
    {Collective::allGatherv, kAnyRanks, kAnySize, "ring"},
    {Collective::reduceScatterv, kFew, kAnySize, "direct"},
    {Collective::reduceScatterv, kAnyRanks, 8 * KiB, "recursive"},
    {Collective::reduceScatterv, kAnyRanks, kAnySize, "ring"},

    {Collective::broadcast, 2, 8 * KiB, "direct", kOneHost},
    {Collective::broadcast, 2, kAnySize, "split", kOneHost},
    // Beyond, where the others cannot read its memory, the root would copy too much.
    {Collective::broadcast, kFew, 4 * MiB, "direct", kOneHost},
    {Collective::broadcast, kFew, 64 * KiB, "direct"},
    {Collective::broadcast, kAnyRanks, 64 * KiB, "tree"},
    {Collective::broadcast, kAnyRanks, kAnySize, "chain"},
    {Collective::reduce, kFew, 64 * KiB, "direct"},
    {Collective::reduce, kAnyRanks, 64 * KiB, "tree"},
    {Collective::reduce, kAnyRanks, kAnySize, "chain"},

    {Collective::gather, kAnyRanks, kAnySize, "direct"},
    {Collective::scatter, kAnyRanks, kAnySize, "direct"},
    {Collective::allToAll, kAnyRanks, kAnySize, "direct"},
    // Relays move everything twice: only where 2(n-1) connections per rank are too many.
    {Collective::allToAllv, 64, kAnySize, "direct"},
    {Collective::allToAllv, kAnyRanks, kAnySize, "relay"},
    {Collective::barrier, kFew, kAnySize, "direct"},
    {Collective::barrier, kAnyRanks, kAnySize, "recursive"},
};

}  // namespace

std::vector<SelectionRule> measuredRules(int ranks, bool oneHost) {
  std::vector<SelectionRule> rules;
  for (const Rule& rule : kRules) {
    if (ranks > rule.ranks || (rule.oneHost && !oneHost)) continue;
    const bool covered =
        !rules.empty() && rules.back().collective == rule.collective && rules.back().bytes >= rule.bytes;
    if (!covered) rules.push_back({rule.collective, rule.bytes, findAlgorithm(rule.collective, rule.name)});
  }
  return rules;
}

}  // namespace eccl
