#include "transport/flows/flow_assignment.h"

#include <algorithm>
#include <climits>
#include <numeric>

namespace eccl::transport {
namespace {

/// One flow more on a link outweighs all that sources may gain: ways are shorter.
constexpr uint64_t kFlow = 64;

/// Flows that have been given ways, and what that costs.
class Spread {
 public:
  explicit Spread(std::span<const FlowChoice> flows) : flows_(flows), chosen_(flows.size()) {
    for (size_t flow = 0; flow < flows.size(); ++flow)
      if (flows[flow].now != SIZE_MAX) place(flow, flows[flow].now);
  }

  void place(size_t flow, size_t way) {
    chosen_[flow] = way;
    loads_.add(flows_[flow].ways[way], flows_[flow].source);
  }
  void lift(size_t flow) { loads_.remove(flows_[flow].ways[chosen_[flow]], flows_[flow].source); }
  /// What a flow that is lifted adds if it takes this way: half of what the sum of squares grows by, and a
  /// constant; then the links that are new to its source.
  uint64_t cost(size_t flow, size_t way) const {
    uint64_t sum = 0;
    for (const LinkName link : flows_[flow].ways[way]) {
      const auto load = loads_.flows.find(link);
      sum += kFlow * (load != loads_.flows.end() ? load->second : 0) + isNew(flow, link);
    }
    return sum;
  }
  /// The same where only other sources count, so that a source stays where it is.
  uint64_t costOfSources(size_t flow, size_t way) const {
    uint64_t sum = 0;
    for (const LinkName link : flows_[flow].ways[way]) {
      auto each = loads_.ofSource.lower_bound({link, INT_MIN});
      for (; each != loads_.ofSource.end() && each->first.first == link; ++each)
        sum += kFlow * (each->first.second != flows_[flow].source);
      sum += isNew(flow, link);
    }
    return sum;
  }
  size_t best(size_t flow, uint64_t (Spread::*costs)(size_t, size_t) const) const {
    size_t best = 0;
    for (size_t way = 1; way < flows_[flow].ways.size(); ++way)
      if ((this->*costs)(flow, way) < (this->*costs)(flow, best)) best = way;
    return best;
  }
  /// What all flows cost, in the same units.
  uint64_t total() const {
    uint64_t sum = loads_.ofSource.size();
    for (const auto& [link, load] : loads_.flows) sum += kFlow * load * (load - 1) / 2;
    return sum;
  }
  /// True: it has changed its way for a cheaper one.
  bool improve(size_t flow) {
    const size_t before = chosen_[flow];
    lift(flow);
    const size_t cheapest = best(flow, &Spread::cost);
    const bool better = cost(flow, cheapest) < cost(flow, before);
    place(flow, better ? cheapest : before);
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
    for (const LinkName link : flows_[flow].ways[chosen_[flow]]) most = std::max(most, loads_.flows.at(link));
    return most;
  }
  const std::vector<size_t>& chosen() const { return chosen_; }

 private:
  uint64_t both(size_t one, size_t way, size_t other, size_t their) const {
    uint64_t sum = cost(one, way) + cost(other, their);
    const std::vector<LinkName>& links = flows_[other].ways[their];
    const bool sameSource = flows_[one].source == flows_[other].source;
    for (const LinkName link : flows_[one].ways[way]) {
      if (std::find(links.begin(), links.end(), link) == links.end()) continue;
      sum += kFlow;
      if (sameSource) sum -= isNew(one, link);
    }
    return sum;
  }
  bool isNew(size_t flow, LinkName link) const {
    return loads_.ofSource.find({link, flows_[flow].source}) == loads_.ofSource.end();
  }

  const std::span<const FlowChoice> flows_;
  LinkLoads loads_;
  std::vector<size_t> chosen_;
};

/// Pairs take quadratic time: only so many flows are paired, those on the fullest links, and none of very many.
constexpr size_t kMostPaired = 64, kPairedOf = 256;
constexpr int kRounds = 100;

/// Until no flow, and no pair of flows, can do better.
void improve(Spread& spread, std::vector<size_t> order) {
  bool better = true;
  for (int round = 0; better && round < kRounds; ++round) {
    better = false;
    for (const size_t flow : order) better |= spread.improve(flow);
    if (better || order.size() > kPairedOf) continue;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return spread.worst(a) > spread.worst(b); });
    const size_t paired = std::min(order.size(), kMostPaired);
    for (size_t i = 0; i < paired; ++i)
      for (size_t j = i + 1; j < paired; ++j) better |= spread.improve(order[i], order[j]);
  }
}

}  // namespace

void LinkLoads::add(const std::vector<LinkName>& way, int source) {
  for (const LinkName link : way) {
    ++flows[link];
    ++ofSource[{link, source}];
  }
}

void LinkLoads::remove(const std::vector<LinkName>& way, int source) {
  for (const LinkName link : way) {
    if (--flows[link] == 0) flows.erase(link);
    if (const auto own = ofSource.find({link, source}); --own->second == 0) ofSource.erase(own);
  }
}

// From two beginnings: flow by flow, or each source where the fewest others are.
std::vector<size_t> assignFlows(std::span<const FlowChoice> flows) {
  std::vector<size_t> order(flows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return flows[a].ways.size() < flows[b].ways.size(); });
  Spread one(flows), other(flows);
  for (const size_t flow : order) {
    if (flows[flow].now != SIZE_MAX) continue;
    one.place(flow, one.best(flow, &Spread::cost));
    other.place(flow, other.best(flow, &Spread::costOfSources));
  }
  improve(one, order);
  improve(other, order);
  return one.total() <= other.total() ? one.chosen() : other.chosen();
}

}  // namespace eccl::transport
