#include "common/stats.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace eccl::perf {

IterationStats iterationStats(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const size_t n = times.size();
  const auto nearestRank = [&](size_t percent) { return times[std::min(n - 1, (n * percent + 99) / 100 - 1)]; };
  IterationStats stats{};
  stats.min = times.front();
  stats.max = times.back();
  stats.p50 = times[n / 2];
  stats.p95 = nearestRank(95);
  stats.p99 = nearestRank(99);
  stats.average = std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(n);
  double squares = 0;
  for (double time : times) squares += (time - stats.average) * (time - stats.average);
  stats.deviation = std::sqrt(squares / static_cast<double>(n));
  return stats;
}

}  // namespace eccl::perf
