#include "algorithms/select.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>

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

/// One driver runs all lanes of a rank: more channels would only make its messages smaller.
constexpr int kChannels = 1;

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  size_t from = text.find_first_not_of(blanks);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(blanks) - from + 1);
}

/// "AllReduce: ring, tree; Broadcast: chain", restricted to one collective if given.
std::string listAlgorithms(const Collective* only = nullptr) {
  std::string text;
  const Algorithm* previous = nullptr;
  for (int c = 0; c < kCollectives; ++c) {
    for (const Algorithm& algorithm : algorithms()) {
      if (static_cast<int>(algorithm.collective) != c || (only != nullptr && algorithm.collective != *only)) {
        continue;
      }
      bool sameCall = previous != nullptr && previous->collective == algorithm.collective;
      if (!sameCall) text += std::string(previous == nullptr ? "" : "; ") + nameOf(algorithm.collective) + ": ";
      text += std::string(sameCall ? ", " : "") + algorithm.name;
      previous = &algorithm;
    }
  }
  return text;
}

/// A piece of the setting, for a message: not too long.
std::string quoted(std::string_view text) {
  constexpr size_t longest = 40;
  return '"' + std::string(text.substr(0, longest)) + (text.size() > longest ? "…" : "") + '"';
}

/// An entry with a collective.
Status forceOne(std::string_view collectiveText, std::string_view nameText, SelectionTable& table) {
  const std::string wanted = lowered(collectiveText), name = lowered(nameText);
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (lowered(nameOf(collective)) != wanted || listAlgorithms(&collective).empty()) continue;
    if ((table.forced[c] = findAlgorithm(collective, name)) != nullptr) return {};
    return Status::error(Code::invalidArgument, "ECCL_ALGO: no algorithm %s for %s; choose from %s",
                         quoted(nameText).c_str(), nameOf(collective), listAlgorithms(&collective).c_str());
  }
  return Status::error(Code::invalidArgument, "ECCL_ALGO: no collective %s with algorithms; there are %s",
                       quoted(collectiveText).c_str(), listAlgorithms().c_str());
}

/// An entry for all collectives.
Status forceAll(std::string_view nameText, SelectionTable& table) {
  const std::string name = lowered(nameText);
  bool found = false;
  for (const Algorithm& algorithm : algorithms()) {
    if (name != algorithm.name) continue;
    table.forced[static_cast<int>(algorithm.collective)] = &algorithm;
    found = true;
  }
  if (found) return {};
  return Status::error(Code::invalidArgument, "ECCL_ALGO: no algorithm %s; choose from %s",
                       quoted(nameText).c_str(), listAlgorithms().c_str());
}

}  // namespace

Result<SelectionTable> parseSelection(std::string_view text) {
  SelectionTable table;
  if (trimmed(text).empty()) return table;
  for (bool named : {false, true}) {  // entries with a collective later: they are stronger
    for (size_t at = 0; at <= text.size();) {
      const size_t comma = std::min(text.find(',', at), text.size());
      const std::string_view entry = trimmed(text.substr(at, comma - at));
      const size_t colon = entry.find(':');
      at = comma + 1;
      if ((colon != std::string_view::npos) != named) continue;
      ECCL_TRY(named ? forceOne(trimmed(entry.substr(0, colon)), trimmed(entry.substr(colon + 1)), table)
                     : forceAll(entry, table));
    }
  }
  return table;
}

Choice select(Collective collective, size_t bytes, int ranks, const SelectionTable& table) {
  const int channels = table.channels > 0 ? table.channels : kChannels;
  if (const Algorithm* forced = table.forced[static_cast<int>(collective)]) return {forced, channels};
  if (collective == Collective::allToAllv) bytes = 0;
  for (const Rule& rule : kRules) {
    if (rule.collective == collective && ranks <= rule.ranks && bytes <= rule.bytes &&
        (table.oneHost || !rule.oneHost)) {
      return {findAlgorithm(collective, rule.name), channels};
    }
  }
  return {nullptr, channels};
}

}  // namespace eccl
