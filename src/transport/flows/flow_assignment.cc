#include "transport/flows/flow_assignment.h"

#include <algorithm>
#include <numeric>

namespace eccl::transport {
namespace {

/// Flows that have been given ways, and what that costs.
class Spread {
 public:
  Spread(std::span<const FlowChoice> flows, LinkLoads& loads)
      : flows_(flows), loads_(loads), chosen_(flows.size()) {}

  void place(size_t flow, size_t way) {
    chosen_[flow] = way;
    for (const LinkName link : flows_[flow].ways[way]) ++loads_[link];
  }
  void lift(size_t flow) {
    for (const LinkName link : flows_[flow].ways[chosen_[flow]]) --loads_[link];
  }
  /// Half of what the sum of squares grows by, and a constant, if a flow that is lifted takes this way.
  uint64_t cost(size_t flow, size_t way) const {
    uint64_t sum = 0;
    for (const LinkName link : flows_[flow].ways[way]) {
      const auto load = loads_.find(link);
      sum += load != loads_.end() ? load->second : 0;
    }
    return sum;
  }
  size_t cheapest(size_t flow) const {
    size_t best = 0;
    for (size_t way = 1; way < flows_[flow].ways.size(); ++way)
      if (cost(flow, way) < cost(flow, best)) best = way;
    return best;
  }
  /// True: it has changed its way for a cheaper one.
  bool improve(size_t flow) {
    const size_t before = chosen_[flow];
    lift(flow);
    const size_t best = cheapest(flow);
    const bool better = cost(flow, best) < cost(flow, before);
    place(flow, better ? best : before);
    return better;
  }
  /// The same for two flows at once: each may have to make room for the other.
  bool improve(size_t one, size_t other) {
    const size_t beforeOne = chosen_[one], beforeOther = chosen_[other];
    lift(one);
    lift(other);
    uint64_t least = both(one, beforeOne, other, beforeOther);
    size_t bestOne = beforeOne, bestOther = beforeOther;
    for (size_t way = 0; way < flows_[one].ways.size(); ++way) {
      for (size_t their = 0; their < flows_[other].ways.size(); ++their) {
        const uint64_t sum = both(one, way, other, their);
        if (sum >= least) continue;
        least = sum;
        bestOne = way;
        bestOther = their;
      }
    }
    place(one, bestOne);
    place(other, bestOther);
    return bestOne != beforeOne || bestOther != beforeOther;
  }
  /// The most that a link of this flow carries.
  uint32_t worst(size_t flow) const {
    uint32_t most = 0;
    for (const LinkName link : flows_[flow].ways[chosen_[flow]]) most = std::max(most, loads_.at(link));
    return most;
  }
  const std::vector<size_t>& chosen() const { return chosen_; }

 private:
  uint64_t both(size_t one, size_t way, size_t other, size_t their) const {
    uint64_t shared = 0;
    const std::vector<LinkName>& links = flows_[other].ways[their];
    for (const LinkName link : flows_[one].ways[way])
      shared += std::find(links.begin(), links.end(), link) != links.end();
    return cost(one, way) + cost(other, their) + shared;
  }

  const std::span<const FlowChoice> flows_;
  LinkLoads& loads_;
  std::vector<size_t> chosen_;
};

/// Pairs take quadratic time: only so many flows are paired, those on the fullest links.
constexpr size_t kMostPaired = 64;

}  // namespace

std::vector<size_t> assignFlows(std::span<const FlowChoice> flows, LinkLoads* loads) {
  Spread spread(flows, *loads);
  std::vector<size_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return flows[a].ways.size() < flows[b].ways.size(); });
  for (const size_t flow : order) spread.place(flow, spread.cheapest(flow));
  for (bool better = true; better;) {
    better = false;
    for (const size_t flow : order) better |= spread.improve(flow);
    if (better) continue;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return spread.worst(a) > spread.worst(b); });
    const size_t paired = std::min(order.size(), kMostPaired);
    for (size_t i = 0; i < paired && !better; ++i)
      for (size_t j = i + 1; j < paired && !better; ++j) better = spread.improve(order[i], order[j]);
  }
  return spread.chosen();
}

}  // namespace eccl::transport
