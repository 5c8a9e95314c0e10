// The selection table: sizes are walked upwards in steps, and where the fastest choice changes the size is
// found by halving the step. Also the text form of tables.
#include "algorithms/selection/selection_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>

#include "base/text_file.h"
#include "base/tokens.h"

namespace eccl::algorithms {
namespace {

constexpr size_t kMinBytes = 64, kMaxBytes = size_t{128} << 20;
constexpr size_t kStep = 64;          // between sizes that are always looked at
constexpr double kNear = 1.5;         // so near a size is known where the choice changes
constexpr double kPreference = 1.02;  // another choice has to be better by this

size_t blocksOf(Collective collective, int ranks) {
  const CollectiveShape shape{collective, ranks, 0};
  return static_cast<size_t>(std::max({shape.input(0).number, shape.output(0).number, 1}));
}

int algorithmsOf(Collective collective) {
  const auto all = algorithms();
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const Algorithm& algorithm) { return algorithm.collective == collective; }));
}

/// Those that are priced: of which several algorithms fit. The v calls go as those they are the v of, and
/// AlltoAllv, of whose sizes no rank knows all, by the number of ranks or as AlltoAll.
bool isPriced(Collective collective, const Placement& placement) {
  if (collective == Collective::allToAllv || collective == Collective::allGatherv ||
      collective == Collective::reduceScatterv)
    return false;
  int fitting = 0;
  bool any = false;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective || !fits(algorithm, placement)) continue;
    ++fitting;
    any |= neighboursOf(algorithm, placement) <= kMaxNeighbours;
  }
  return fitting > 1 && any;
}

/// What is best at sizes, asked for one by one.
class Search {
 public:
  Search(Collective collective, const Placement& placement, const CostModel& model, const CallSize& size)
      : collective_(collective), placement_(placement), model_(model), size_(size) {}

  /// The best at a size; `favourite` unless another is better by more than the model's noise.
  Result<Choice> best(size_t bytes, const Choice& favourite = {}) {
    CallSize size = size_;
    size.elementBytes = collective_ == Collective::barrier ? 1 : 4;
    size.elements = std::max<uint64_t>(1, bytes / size.elementBytes);
    ECCL_ASSIGN(const auto candidates, candidatesFor(collective_, size, placement_, model_));
    for (const Candidate& candidate : candidates) {
      if (candidate.choice == favourite && candidate.microseconds <= candidates[0].microseconds * kPreference)
        return favourite;
    }
    return candidates[0].choice;
  }

  Status rules(std::vector<SelectionRule>& rules) {
    if (collective_ == Collective::barrier) {
      ECCL_ASSIGN(const Choice only, best(1));
      rules.push_back({collective_, SIZE_MAX, only});
      return {};
    }
    const size_t most = std::max(kMinBytes, kMaxBytes / blocksOf(collective_, placement_.ranks()));
    ECCL_ASSIGN(Choice current, best(kMinBytes));
    for (size_t low = kMinBytes; low < most; low *= kStep) {
      const size_t high = std::min(low * kStep, most);
      ECCL_ASSIGN(const Choice next, best(high, current));
      ECCL_TRY(between(low, current, high, next, rules));
      current = next;
    }
    rules.push_back({collective_, SIZE_MAX, current});
    return {};
  }

 private:
  /// Adds the rules for the sizes between two, of which the choices are known, but the last.
  Status between(size_t low, const Choice& atLow, size_t high, const Choice& atHigh,
                 std::vector<SelectionRule>& rules) {
    if (atLow == atHigh) return {};
    const double ratio = static_cast<double>(high) / static_cast<double>(low);
    if (ratio <= kNear) {
      rules.push_back({collective_, low, atLow});
      return {};
    }
    const auto middle = static_cast<size_t>(static_cast<double>(low) * std::sqrt(ratio));
    ECCL_ASSIGN(const Choice there, best(middle, atLow));
    ECCL_TRY(between(low, atLow, middle, there, rules));
    return between(middle, there, high, atHigh, rules);
  }

  const Collective collective_;
  const Placement& placement_;
  const CostModel& model_;
  const CallSize& size_;
};

}  // namespace

Result<std::vector<SelectionRule>> rulesFor(const Placement& placement, const CostModel& model, CallSize size) {
  std::vector<SelectionRule> rules;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (isPriced(collective, placement)) ECCL_TRY(Search(collective, placement, model, size).rules(rules));
  }
  // AlltoAllv takes hosts into account where long blocks of AlltoAll do.
  const auto longest = std::find_if(rules.begin(), rules.end(), [](const SelectionRule& rule) {
    return rule.collective == Collective::allToAll && rule.bytes == SIZE_MAX;
  });
  if (longest != rules.end() && longest->choice.algorithm->hierarchical())
    rules.push_back({Collective::allToAllv,
                     SIZE_MAX,
                     {findAlgorithm(Collective::allToAllv, longest->choice.algorithm->name)}});
  return rules;
}

Result<std::vector<SelectionRule>> loadRules(const std::string& path) {
  ECCL_ASSIGN(const std::string text, readWholeLines(path, "the table of algorithms"));
  return parseRules(text, path);
}

std::vector<SelectionRule> overridden(std::vector<SelectionRule> rules, std::vector<SelectionRule> by) {
  std::erase_if(rules, [&](const SelectionRule& rule) {
    return std::any_of(by.begin(), by.end(),
                       [&](const SelectionRule& other) { return other.collective == rule.collective; });
  });
  by.insert(by.end(), rules.begin(), rules.end());
  return by;
}

std::string textOf(const Choice& choice) {
  std::string text = choice.algorithm->name;
  if (choice.channels != 1 || choice.tile != 0) text += ' ' + std::to_string(choice.channels);
  if (choice.tile != 0) text += ' ' + std::to_string(choice.tile);
  return text;
}

std::string textOf(std::span<const SelectionRule> rules) {
  std::string text;
  for (const SelectionRule& rule : rules) {
    const std::string bytes = rule.bytes == SIZE_MAX ? "*" : std::to_string(rule.bytes);
    text += format("%s %s %s\n", nameOf(rule.collective), bytes.c_str(), textOf(rule.choice).c_str());
  }
  return text;
}

Result<std::vector<SelectionRule>> parseRules(std::string_view text, const std::string& name) {
  std::vector<SelectionRule> rules;
  std::map<Collective, size_t> last;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = nextLine(text);
    std::string_view rest = line;
    const std::string_view collective = nextToken(rest);
    if (collective.empty()) continue;
    SelectionRule rule;
    const char* wrong = "there is no such collective; eccl_sched list names those that have algorithms";
    for (int c = 0; c < kCollectives; ++c) {
      rule.collective = static_cast<Collective>(c);
      if (collective != nameOf(rule.collective) || algorithmsOf(rule.collective) == 0) continue;
      wrong = nullptr;
      break;
    }
    const std::string_view bytes = nextToken(rest), algorithm = nextToken(rest);
    if (wrong == nullptr && bytes == "*") {
      rule.bytes = SIZE_MAX;
    } else if (wrong == nullptr && !readNumber(bytes, size_t{0}, SIZE_MAX - 1, rule.bytes)) {
      wrong = "after the collective goes a number of bytes, or *";
    }
    if (wrong == nullptr && (rule.choice.algorithm = findAlgorithm(rule.collective, algorithm)) == nullptr)
      wrong = "the third word is an algorithm of the collective; eccl_sched list names all";
    const std::string_view channels = nextToken(rest), tile = nextToken(rest);
    if (wrong == nullptr && !channels.empty() && !readNumber(channels, 1, kMaxChannels, rule.choice.channels))
      wrong = "after the algorithm goes a number of channels from 1 to 64";
    if (wrong == nullptr && !tile.empty() &&
        !readNumber(tile, kMinTile, uint64_t{UINT32_MAX}, rule.choice.tile))
      wrong = "after the channels go the bytes of a message, 1024 or more";
    if (wrong == nullptr && !nextToken(rest).empty()) wrong = "there is a word too many";
    if (wrong == nullptr) {
      const auto [before, first] = last.try_emplace(rule.collective, rule.bytes);
      if (!first && rule.bytes <= before->second) wrong = "the bytes of a collective grow from line to line";
      before->second = rule.bytes;
    }
    if (wrong != nullptr) return wrongLine(name, number, line, wrong);
    rules.push_back(rule);
  }
  for (const auto& [collective, bytes] : last) {
    if (bytes != SIZE_MAX)
      return Status::error(Code::invalidArgument, "%s: the last line of %s must be for * bytes", name.c_str(),
                           nameOf(collective));
  }
  return rules;
}

}  // namespace eccl::algorithms
