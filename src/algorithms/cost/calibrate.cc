#include "algorithms/cost/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>

namespace eccl::algorithms {
namespace {

using Vector = std::array<double, kCostTerms>;

/// The x >= 0 that minimises |x|² by `matrix` minus twice its product with `right`: one coordinate after the
/// other, each at its best, which comes to the minimum as the matrix is positive definite.
void descend(const std::array<Vector, kCostTerms>& matrix, const Vector& right, Vector& x) {
  for (int round = 0; round < 2000; ++round) {
    double moved = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      double slope = right[k];
      for (size_t j = 0; j < x.size(); ++j) slope -= matrix[k][j] * x[j];
      const double next = std::max(0.0, x[k] + slope / matrix[k][k]);
      moved = std::max(moved, std::abs(next - x[k]) / (std::abs(x[k]) + 1e-12));
      x[k] = next;
    }
    if (moved < 1e-7) break;
  }
}

double costOf(std::span<const double> predicted, std::span<const Measurement> measurements) {
  double sum = 0;
  for (size_t i = 0; i < predicted.size(); ++i) {
    const double error = predicted[i] / measurements[i].microseconds - 1;
    sum += error * error;
  }
  return sum;
}

Result<CostParameters> fitConstants(std::span<const Measurement> measurements, const CostParameters& start) {
  constexpr int kRounds = 15;
  constexpr double kPull =
      1e-3;  // towards `start`, relative to one measurement: decides what nothing else does
  CostParameters now = start, best = start;
  double least = INFINITY;
  for (int round = 0; round < kRounds; ++round) {
    std::array<Vector, kCostTerms> matrix{};
    Vector right{};
    std::vector<double> predicted;
    for (const Measurement& measurement : measurements) {
      ECCL_ASSIGN(const CostAmounts amounts,
                  simulatedAmounts(measurement.programs(), measurement.size, measurement.placement, now));
      predicted.push_back(std::inner_product(amounts.begin(), amounts.end(), now.values.begin(), 0.0));
      for (size_t k = 0; k < right.size(); ++k) {
        const double mine = amounts[k] / measurement.microseconds;
        right[k] += mine;
        for (size_t j = 0; j < right.size(); ++j) matrix[k][j] += mine * amounts[j] / measurement.microseconds;
      }
    }
    if (const double cost = costOf(predicted, measurements); cost < least) {
      least = cost;
      best = now;
    }
    for (size_t k = 0; k < right.size(); ++k) {
      const double unit = std::max(start.values[k], 1e-3), pull = kPull / (unit * unit);
      matrix[k][k] += pull;
      right[k] += pull * start.values[k];
    }
    Vector next = now.values;
    descend(matrix, right, next);
    // Half way: the critical path may be another there.
    for (size_t k = 0; k < next.size(); ++k) now.values[k] = (now.values[k] + next[k]) / 2;
  }
  return best;
}

}  // namespace

Result<CostModel> calibrate(std::span<const Measurement> measurements, const CostParameters& start) {
  ECCL_ASSIGN(const CostParameters constants, fitConstants(measurements, start));
  // Of calls that differ only in what corrections do not tell apart, the mean.
  struct Factors {
    double logarithms = 0;
    int number = 0;
  };
  std::map<std::tuple<const Algorithm*, bool, int, double>, Factors> factors;
  for (const Measurement& m : measurements) {
    ECCL_ASSIGN(const double time, simulatedTime(m.programs(), m.size, m.placement, constants));
    Factors& its = factors[{m.algorithm, m.placement.sharesMemory(), m.placement.ranks(), m.blockBytes()}];
    its.logarithms += std::log(m.microseconds / time);
    ++its.number;
  }
  std::vector<Correction> corrections;
  for (const auto& [of, its] : factors) {
    const auto& [algorithm, memory, ranks, bytes] = of;
    corrections.push_back({algorithm, memory, ranks, bytes,
                           std::clamp(std::exp(its.logarithms / its.number), kMinCorrection, kMaxCorrection)});
  }
  return CostModel(constants, std::move(corrections));
}

Result<double> predict(const Measurement& m, const CostModel& model) {
  return model.predict(*m.algorithm, m.programs(), m.size, m.placement);
}

Result<Accuracy> accuracyOf(std::span<const Measurement> measurements, const CostModel& model) {
  std::vector<double> errors;
  for (const Measurement& measurement : measurements) {
    ECCL_ASSIGN(const double time, predict(measurement, model));
    errors.push_back(std::abs(time / measurement.microseconds - 1));
  }
  std::sort(errors.begin(), errors.end());
  Accuracy accuracy;
  accuracy.calls = errors.size();
  if (errors.empty()) return accuracy;
  accuracy.median = errors[errors.size() / 2];
  accuracy.percentile95 = errors[std::min(errors.size() - 1, errors.size() * 95 / 100)];
  accuracy.most = errors.back();
  return accuracy;
}

}  // namespace eccl::algorithms
