// The selector, and the grammar of ECCL_ALGO.
#include "algorithms/selection/select.h"

#include <algorithm>
#include <string>

#include "base/printable.h"

namespace eccl::algorithms {
namespace {

/// The v calls differ from others in the sizes of the blocks only, and programs know no sizes.
Collective withoutSizes(Collective collective) {
  switch (collective) {
    case Collective::allGatherv:
      return Collective::allGather;
    case Collective::reduceScatterv:
      return Collective::reduceScatter;
    default:
      return collective;
  }
}

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

/// An entry with a collective.
Status forceOne(std::string_view collectiveText, std::string_view nameText, SelectionTable& table) {
  const std::string wanted = lowered(collectiveText), name = lowered(nameText);
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (lowered(nameOf(collective)) != wanted || listAlgorithms(&collective).empty()) continue;
    if ((table.forced[c] = findAlgorithm(collective, name)) != nullptr) return {};
    return Status::error(Code::invalidArgument, "ECCL_ALGO: no algorithm %s for %s; choose from %s",
                         inQuotes(nameText).c_str(), nameOf(collective), listAlgorithms(&collective).c_str());
  }
  return Status::error(Code::invalidArgument, "ECCL_ALGO: no collective %s with algorithms; there are %s",
                       inQuotes(collectiveText).c_str(), listAlgorithms().c_str());
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
                       inQuotes(nameText).c_str(), listAlgorithms().c_str());
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
  auto by = [&](Choice choice) {
    if (table.channels > 0) choice.channels = table.channels;
    return choice;
  };
  if (const Algorithm* forced = table.forced[static_cast<int>(collective)]) return by({forced});
  if (collective == Collective::allToAllv) bytes = 0;
  for (Collective whose : {collective, withoutSizes(collective)}) {
    for (const SelectionRule& rule : table.rules) {
      if (rule.collective != whose || bytes > rule.bytes) continue;
      Choice choice = rule.choice;
      choice.algorithm = findAlgorithm(collective, choice.algorithm->name);
      return by(choice);
    }
  }
  if (collective == Collective::allToAllv)  // relays move everything twice
    return by({findAlgorithm(collective, ranks <= kMaxNeighbours ? "direct" : "relay")});
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective) return by({&algorithm});
  }
  return by({});
}

}  // namespace eccl::algorithms
