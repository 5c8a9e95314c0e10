#include "algorithms/builder/runs.h"

#include <algorithm>
#include <cstdlib>

namespace eccl::algorithms {
namespace {

/// Whether the numbers of `walk`, `times` of them, may go on with `value`. Then `walk` includes it.
bool goesOn(Walk& walk, int times, int value) {
  if (times == 0) {
    walk = {value, 0, 0, 0};
    return true;
  }
  if (times == 1) {
    walk.stride = value - walk.base;
    return true;
  }
  const int next = walk.at(times), first = walk.at(0), last = walk.at(times - 1);
  if (next == value) return true;
  if (walk.wrap != 0) return false;
  // From the end of a ring to its beginning: it is as long as the numbers are apart, if all of them fit there.
  const int wrap = std::abs(next - value), base = std::min({first, last, value});
  if (std::max({first, last, value}) - base >= wrap) return false;
  walk = {base, first - base, walk.stride, wrap};
  return true;
}

}  // namespace

std::vector<Walks> runsOf(std::span<const Pair> list) {
  std::vector<Walks> runs;
  for (const Pair& pair : list) {
    if (!runs.empty()) {
      Walks longer = runs.back();
      if (goesOn(longer.first, longer.times, pair[0]) && goesOn(longer.second, longer.times, pair[1])) {
        runs.back() = longer;
        ++runs.back().times;
        continue;
      }
    }
    Walks& begun = runs.emplace_back();
    goesOn(begun.first, 0, pair[0]);
    goesOn(begun.second, 0, pair[1]);
    begun.times = 1;
  }
  return runs;
}

}  // namespace eccl::algorithms
