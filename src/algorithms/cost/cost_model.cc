// Corrections between the measured points, and the text of a model.
#include "algorithms/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/text_file.h"
#include "base/tokens.h"

namespace eccl::algorithms {
namespace {

constexpr const char* kLines = "lines";  // and how many follow
constexpr double kMax = 1e9;             // microseconds, per MB or not; bytes are up to its square

auto keyOf(const Correction& c) {
  return std::make_tuple(c.algorithm, c.memory, c.ranks, c.bytes);
}

/// Between two points, over the logarithm of x; outside as at the nearer end.
double between(double x, double x0, double y0, double x1, double y1) {
  if (x <= x0 || x0 >= x1) return y0;
  if (x >= x1) return y1;
  return y0 + (y1 - y0) * std::log(x / x0) / std::log(x1 / x0);
}

/// "AllReduce ring memory 2 65536 1.25". nullptr, or what is wrong with it; a static text.
const char* readCorrection(std::string_view words, Correction& correction) {
  const std::string_view collective = nextToken(words), name = nextToken(words), kind = nextToken(words);
  correction.algorithm = findAlgorithm(collective, name);
  if (correction.algorithm == nullptr) return "there is no such algorithm; eccl_sched list names all";
  if (kind != "memory" && kind != "network") return "after the algorithm goes memory or network";
  correction.memory = kind == "memory";
  if (!readNumber(nextToken(words), 1, 1 << 20, correction.ranks)) return "the ranks must be from 1 to 1048576";
  if (!readNumber(nextToken(words), 1.0, kMax * kMax, correction.bytes))
    return "the bytes must be from 1 to 1e18";
  if (!readNumber(nextToken(words), kMinCorrection, kMaxCorrection, correction.factor))
    return "the factor must be from 0.001 to 1000";
  return nextToken(words).empty() ? nullptr : "there is a word too many";
}

}  // namespace

CostModel::CostModel(const CostParameters& parameters, std::vector<Correction> corrections)
    : parameters_(parameters), corrections_(std::move(corrections)) {
  std::sort(corrections_.begin(), corrections_.end(),
            [](const Correction& a, const Correction& b) { return keyOf(a) < keyOf(b); });
}

double CostModel::factorFor(const Algorithm& algorithm, bool memory, int ranks, double bytes) const {
  // At each number of ranks that was measured, over the bytes; then over the nearest two of these.
  double fewer = 0, more = 0, atFewer = 0, atMore = 0;
  for (size_t i = 0; i < corrections_.size();) {
    const Correction& first = corrections_[i];
    size_t end = i;
    while (end < corrections_.size() && corrections_[end].algorithm == first.algorithm &&
           corrections_[end].memory == first.memory && corrections_[end].ranks == first.ranks) {
      ++end;
    }
    if (first.algorithm == &algorithm && first.memory == memory) {
      size_t above = i;
      while (above + 1 < end && corrections_[above].bytes < bytes) ++above;
      const Correction &low = corrections_[above > i ? above - 1 : i], &high = corrections_[above];
      const double factor =
          std::exp(between(bytes, low.bytes, std::log(low.factor), high.bytes, std::log(high.factor)));
      if (first.ranks <= ranks) fewer = first.ranks, atFewer = factor;
      if (first.ranks >= ranks && more == 0) more = first.ranks, atMore = factor;
    }
    i = end;
  }
  if (fewer == 0 && more == 0) return 1;
  if (fewer == 0) return atMore;
  if (more == 0) return atFewer;
  return std::exp(between(ranks, fewer, std::log(atFewer), more, std::log(atMore)));
}

Result<double> CostModel::predict(const Algorithm& algorithm, const std::vector<Program>& programs,
                                  const CallSize& size, const Placement& placement, int64_t mostTiles) const {
  ECCL_ASSIGN(const double time, simulatedTime(programs, size, placement, parameters_, mostTiles));
  const double bytes = static_cast<double>(size.elements) * size.elementBytes;
  return time * factorFor(algorithm, placement.sharesMemory(), placement.ranks(), bytes);
}

std::string CostModel::text() const {
  std::string text = format("%s %zu\n", kLines, kCostTerms + corrections_.size());
  for (int term = 0; term < kCostTerms; ++term)
    text += nameOf(static_cast<CostTerm>(term)) + ' ' + written(parameters_.values[static_cast<size_t>(term)]) +
            '\n';
  for (const Correction& c : corrections_) {
    text += format("correct %s %s %s %d ", nameOf(c.algorithm->collective), c.algorithm->name,
                   c.memory ? "memory" : "network", c.ranks) +
            written(c.bytes) + ' ' + written(c.factor) + '\n';
  }
  return text;
}

Result<CostModel> CostModel::parse(std::string_view text, const std::string& name) {
  CostParameters parameters = CostParameters::defaults();
  std::vector<Correction> corrections;
  std::vector<bool> given(kCostTerms);
  size_t lines = 0, announced = 0;
  std::set<decltype(keyOf({}))> corrected;
  int line = 1;
  for (; !text.empty(); ++line) {
    const std::string_view words = nextLine(text);
    std::string_view rest = words;
    const std::string_view word = nextToken(rest);
    if (word.empty()) continue;
    const char* wrong = nullptr;
    if (word == kLines) {
      if (lines > 0 || announced > 0)
        wrong = "their number goes before the lines";
      else if (!readNumber(nextToken(rest), size_t{1}, size_t{1} << 30, announced) || !nextToken(rest).empty())
        wrong = "after the word goes how many follow";
      if (wrong == nullptr) continue;
    } else if (word == "correct") {
      wrong = readCorrection(rest, corrections.emplace_back());
      if (wrong == nullptr && !corrected.insert(keyOf(corrections.back())).second)
        wrong = "the call is corrected for the second time";
    } else {
      size_t term = 0;
      while (term < given.size() && nameOf(static_cast<CostTerm>(term)) != word) ++term;
      if (term == given.size()) {
        wrong = "there is no such constant; eccl_topo measure writes all there are";
      } else if (given[term]) {
        wrong = "the constant is given for the second time";
      } else if (!readNumber(nextToken(rest), 0.0, kMax, parameters.values[term]) || !nextToken(rest).empty()) {
        wrong = "after the name goes one number from 0 to 1e9";
      } else {
        given[term] = true;
      }
    }
    if (wrong != nullptr) return wrongLine(name, line, words, wrong);
    ++lines;
  }
  if (announced > 0 && lines != announced)
    return Status::error(Code::invalidArgument,
                         "%s:%d: the file has %zu lines of the %zu that it announces: the rest is cut off",
                         name.c_str(), line - 1, lines, announced);
  return CostModel(parameters, std::move(corrections));
}

Result<CostModel> CostModel::load(const std::string& path) {
  ECCL_ASSIGN(const std::string text, readWholeLines(path, "the cost model"));
  return parse(text, path);
}

}  // namespace eccl::algorithms
