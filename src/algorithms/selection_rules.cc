#include "algorithms/selection_rules.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>

#include "algorithms/words.h"

namespace eccl {
namespace {

constexpr size_t kLeastBytes = 64, kMostBytes = size_t{128} << 20;
constexpr size_t kStep = 8;           // between sizes that are always looked at
constexpr double kPreference = 1.02;  // another algorithm has to be better by this

/// Cut into a part for each rank, or so that a pipeline of ranks is filled.
bool cutByRanks(Collective collective) {
  return collective == Collective::allReduce || collective == Collective::broadcast ||
         collective == Collective::reduce;
}

size_t blocksOf(Collective collective, int ranks) {
  const CollectiveShape shape{collective, ranks, 0};
  return static_cast<size_t>(std::max({shape.input(0).number, shape.output(0).number, 1}));
}

int algorithmsOf(Collective collective) {
  const auto all = algorithms();
  return static_cast<int>(std::count_if(
      all.begin(), all.end(), [&](const Algorithm& algorithm) { return algorithm.collective == collective; }));
}

/// Those that are priced. The v calls go as those they are the v of, and AlltoAllv, of whose sizes no rank
/// knows all, by the number of ranks.
bool isPriced(Collective collective) {
  return algorithmsOf(collective) > 1 && collective != Collective::allToAllv &&
         collective != Collective::allGatherv && collective != Collective::reduceScatterv;
}

/// What is best at sizes, asked for one by one.
class Search {
 public:
  Search(Collective collective, const Placement& placement, const CostModel& model, const CallSize& size)
      : collective_(collective), placement_(placement), model_(model), size_(size) {}

  /// The best at a size; `favourite` unless another is better by more than the model's noise.
  Result<const Algorithm*> best(size_t bytes, const Algorithm* favourite) {
    CallSize size = size_;
    size.elementBytes = collective_ == Collective::barrier ? 1 : 4;
    size.elements = std::max<uint64_t>(1, bytes / size.elementBytes);
    ECCL_ASSIGN(const auto candidates, candidatesFor(collective_, size, placement_, model_));
    for (const Candidate& candidate : candidates) {
      if (candidate.algorithm == favourite &&
          candidate.microseconds <= candidates[0].microseconds * kPreference)
        return favourite;
    }
    return candidates[0].algorithm;
  }

  Status rules(std::vector<SelectionRule>& rules) {
    if (collective_ == Collective::barrier) {
      ECCL_ASSIGN(const Algorithm* only, best(1, nullptr));
      rules.push_back({collective_, SIZE_MAX, only});
      return {};
    }
    const size_t most = std::max(kLeastBytes, kMostBytes / blocksOf(collective_, placement_.ranks()));
    ECCL_ASSIGN(const Algorithm* current, best(kLeastBytes, nullptr));
    for (size_t low = kLeastBytes; low * kStep <= most; low *= kStep) {
      ECCL_ASSIGN(const Algorithm* next, best(low * kStep, current));
      if (next == current) continue;
      // Where between the two it changes, to half a power of two.
      size_t from = low, to = low * kStep;
      for (int halving = 0; halving < 3; ++halving) {
        const auto middle = static_cast<size_t>(std::sqrt(static_cast<double>(from) * static_cast<double>(to)));
        ECCL_ASSIGN(const Algorithm* there, best(middle, current));
        (there == current ? from : to) = middle;
      }
      rules.push_back({collective_, from, current});
      current = next;
    }
    rules.push_back({collective_, SIZE_MAX, current});
    return {};
  }

 private:
  const Collective collective_;
  const Placement& placement_;
  const CostModel& model_;
  const CallSize& size_;
};

}  // namespace

Result<std::vector<Candidate>> candidatesFor(Collective collective, CallSize size, const Placement& placement,
                                             const CostModel& model) {
  const int ranks = std::min(placement.ranks(), kPricedRanks);
  std::vector<int> some(static_cast<size_t>(ranks));
  std::iota(some.begin(), some.end(), 0);
  const Placement priced = placement.of(some);
  if (cutByRanks(collective))
    size.elements = std::max<uint64_t>(
        1, size.elements * static_cast<uint64_t>(ranks) / static_cast<uint64_t>(placement.ranks()));
  std::vector<Candidate> candidates;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective != collective) continue;
    ECCL_ASSIGN(const double time,
                model.predict(algorithm, buildAll(algorithm, {collective, ranks, 0}, 1), size, priced));
    candidates.push_back({&algorithm, time});
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
  return candidates;
}

Result<std::vector<SelectionRule>> rulesFor(const Placement& placement, const CostModel& model, CallSize size) {
  std::vector<SelectionRule> rules;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (isPriced(collective)) ECCL_TRY(Search(collective, placement, model, size).rules(rules));
  }
  return rules;
}

std::string textOf(std::span<const SelectionRule> rules) {
  std::string text;
  for (const SelectionRule& rule : rules) {
    text += format("%s %s %s\n", nameOf(rule.collective),
                   rule.bytes == SIZE_MAX ? "*" : std::to_string(rule.bytes).c_str(), rule.algorithm->name);
  }
  return text;
}

Result<std::vector<SelectionRule>> parseRules(std::string_view text, const std::string& name) {
  std::vector<SelectionRule> rules;
  std::map<Collective, size_t> last;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = nextLine(text);
    std::string_view rest = line;
    const std::string_view collective = nextWord(rest);
    if (collective.empty()) continue;
    SelectionRule rule;
    const char* wrong = "there is no such collective; eccl_sched list names those that have algorithms";
    for (int c = 0; c < kCollectives; ++c) {
      rule.collective = static_cast<Collective>(c);
      if (collective != nameOf(rule.collective) || algorithmsOf(rule.collective) == 0) continue;
      wrong = nullptr;
      break;
    }
    const std::string_view bytes = nextWord(rest), algorithm = nextWord(rest);
    if (wrong == nullptr && bytes == "*") {
      rule.bytes = SIZE_MAX;
    } else if (wrong == nullptr && !readNumber(bytes, size_t{0}, SIZE_MAX - 1, rule.bytes)) {
      wrong = "after the collective goes a number of bytes, or *";
    }
    if (wrong == nullptr && (rule.algorithm = findAlgorithm(rule.collective, algorithm)) == nullptr)
      wrong = "the last word is an algorithm of the collective; eccl_sched list names all";
    if (wrong == nullptr && !nextWord(rest).empty()) wrong = "there is a word too many";
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

}  // namespace eccl
