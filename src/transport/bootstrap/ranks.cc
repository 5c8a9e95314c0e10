#include "transport/bootstrap/ranks.h"

#include <algorithm>

#include "base/status.h"

namespace eccl::transport {

std::string nameRanks(const std::vector<int>& ranks) {
  constexpr int kMaxRuns = 16;  // about one line of a terminal or two
  if (ranks.empty()) return "no rank";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  int runs = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (runs == kMaxRuns) return text + format(" and %zu more", ranks.size() - i);
    if (runs++ > 0) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += format("%s%d", end - i == 2 ? ", " : "-", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::vector<int> treeChildren(int rank, int nranks) {
  std::vector<int> children;
  const long first = static_cast<long>(rank) * kTreeFanout + 1;
  for (long child = first; child < std::min<long>(first + kTreeFanout, nranks); ++child) {
    children.push_back(static_cast<int>(child));
  }
  return children;
}

int treeNextHop(int rank, int target) {
  // Below `rank`: the ancestor of the target that is rank's child. Parents have smaller numbers, so the climb
  // ends.
  for (int below = target; below > rank; below = treeParent(below)) {
    if (treeParent(below) == rank) return below;
  }
  return treeParent(rank);
}

}  // namespace eccl::transport
