// What -I prints of the times of single iterations.
#pragma once

#include <vector>

namespace eccl::perf {

/// Seconds. Percentiles are nearest-rank; the deviation is the population's.
struct IterationStats {
  double min, max, average, p50, p95, p99, deviation;
  double variationPercent() const { return average > 0 ? deviation / average * 100 : 0; }
};

/// `times` must not be empty.
IterationStats iterationStats(std::vector<double> times);

}  // namespace eccl::perf
