// The search for rings, by backtracking. Each link has room for as many rings as fit at the rate that is
// tried. Rates are tried from the bound downwards; for each rate, numbers of channels from 1 upwards. A ring
// is extended terminal by terminal, by the shortest free routes first, and given up after a number of steps,
// so that the search always ends.
#include "topology/search/rings.h"

#include <algorithm>

namespace eccl::topology {
namespace {

/// Steps of a search for one more ring before it is given up. A ring of 16 that is easy to find takes some
/// hundred.
constexpr int kSteps = 10'000;
/// Shares of the bound that are tried, in this order.
constexpr double kRingShares[] = {1,   0.99, 0.98, 0.95, 0.9, 0.85, 0.8, 0.75,
                                  0.7, 0.6,  0.5,  0.4,  0.3, 0.2,  0.1, 0.05};

/// Links with what is free on them, in rings.
class RingSearch {
 public:
  RingSearch(const CapacityGraph& graph, double rate)
      : graph_(graph),
        outgoing_(static_cast<size_t>(graph.nodes)),
        terminal_(static_cast<size_t>(graph.nodes)) {
    for (int t : graph.terminals) terminal_[static_cast<size_t>(t)] = true;
    for (const CapacityEdge& edge : graph.edges) {
      auto& edges = outgoing_[static_cast<size_t>(edge.from)];
      auto known = std::find_if(edges.begin(), edges.end(), [&](const Edge& e) { return e.to == edge.to; });
      if (known == edges.end()) known = edges.insert(edges.end(), {edge.to, 0});
      known->capacity += static_cast<double>(edge.capacity);
    }
    for (auto& edges : outgoing_) {
      for (Edge& edge : edges) edge.free = static_cast<int>(edge.capacity / rate + 1e-9);
    }
  }

  // One more ring, taken out of what is free; and its reverse, where that is free too.
  bool add(std::vector<Ring>& rings, int most) {
    const int first = graph_.terminals.front();
    visited_.assign(static_cast<size_t>(graph_.nodes), false);
    visited_[static_cast<size_t>(first)] = true;
    steps_ = 0;
    path_ = {first};
    if (!extend(static_cast<int>(graph_.terminals.size()) - 1)) return false;
    path_.pop_back();  // the first again
    rings.push_back({path_});
    std::vector<int> back(path_.rbegin(), path_.rend());
    std::rotate(back.begin(), back.end() - 1, back.end());
    if (static_cast<int>(rings.size()) < most && take(back)) rings.push_back({back});
    return true;
  }

 private:
  struct Edge {
    int to;
    double capacity;
    int free = 0;
  };

  // The links from one node to another, taken as one; nullptr if there are none.
  Edge* edge(int from, int to) {
    for (Edge& e : outgoing_[static_cast<size_t>(from)]) {
      if (e.to == to) return &e;
    }
    return nullptr;
  }

  // Takes a whole ring out of what is free; false, and nothing taken, if it does not fit.
  bool take(const std::vector<int>& ring) {
    for (size_t i = 0; i < ring.size(); ++i) {
      Edge* e = edge(ring[i], ring[(i + 1) % ring.size()]);
      if (e != nullptr && e->free > 0) {
        --e->free;
        continue;
      }
      while (i-- > 0) ++edge(ring[i], ring[i + 1])->free;
      return false;
    }
    return true;
  }

  // Routes from `from` to terminals (all unvisited ones, or the first again), by breadth: the fewest nodes
  // first.
  std::vector<std::vector<int>> routes(int from, bool home) const {
    const int first = graph_.terminals.front();
    std::vector<int> before(static_cast<size_t>(graph_.nodes), -1), queue{from};
    before[static_cast<size_t>(from)] = from;
    std::vector<std::vector<int>> found;
    for (size_t at = 0; at < queue.size(); ++at) {
      for (const Edge& e : outgoing_[static_cast<size_t>(queue[at])]) {
        const auto to = static_cast<size_t>(e.to);
        if (e.free == 0 || before[to] >= 0) continue;
        const bool wanted = terminal_[to] && (home ? e.to == first : !visited_[to]);
        if (terminal_[to] && !wanted) continue;
        before[to] = queue[at];
        if (!terminal_[to]) {
          queue.push_back(e.to);
          continue;
        }
        std::vector<int> route;
        for (int node = e.to; node != from; node = before[static_cast<size_t>(node)]) route.push_back(node);
        found.emplace_back(route.rbegin(), route.rend());
      }
    }
    return found;
  }

  // Short routes first; among those, to where there are fewest ways on (Warnsdorff's rule): what is hard to
  // reach later is visited now.
  std::vector<std::vector<int>> ordered(int from, bool home) const {
    auto found = routes(from, home);
    const auto freeWays = [this](int node) {
      int ways = 0;
      for (const Edge& e : outgoing_[static_cast<size_t>(node)]) ways += e.free;
      return ways;
    };
    std::stable_sort(found.begin(), found.end(), [&](const auto& a, const auto& b) {
      return a.size() != b.size() ? a.size() < b.size() : freeWays(a.back()) < freeWays(b.back());
    });
    return found;
  }

  // Extends the path to the `left` terminals that are left, and then home. Backtracks; false if there is no
  // way within the steps.
  bool extend(int left) {
    if (++steps_ > kSteps) return false;
    const int from = path_.back();
    for (const std::vector<int>& route : ordered(from, left == 0)) {
      for (size_t i = 0; i < route.size(); ++i) --edge(i == 0 ? from : route[i - 1], route[i])->free;
      path_.insert(path_.end(), route.begin(), route.end());
      visited_[static_cast<size_t>(route.back())] = true;
      if (left == 0 || extend(left - 1)) return true;
      if (left > 0) visited_[static_cast<size_t>(route.back())] = false;
      path_.resize(path_.size() - route.size());
      for (size_t i = 0; i < route.size(); ++i) ++edge(i == 0 ? from : route[i - 1], route[i])->free;
      if (steps_ > kSteps) return false;
    }
    return false;
  }

  const CapacityGraph& graph_;
  std::vector<std::vector<Edge>> outgoing_;
  std::vector<bool> terminal_, visited_;
  std::vector<int> path_;
  int steps_ = 0;
};

}  // namespace

Result<Rings> searchRings(const CapacityGraph& graph, int mostChannels) {
  ECCL_TRY(validate(graph));
  Rings result;
  result.terminals = static_cast<int>(graph.terminals.size());
  ECCL_ASSIGN(result.bound, reachableBound(graph));
  for (double share : kRingShares) {
    for (int channels = 1; channels <= mostChannels; ++channels) {
      RingSearch search(graph, share * result.bound.perTerminal() * (result.terminals - 1) / channels);
      result.rings.clear();
      while (static_cast<int>(result.rings.size()) < channels && search.add(result.rings, channels)) {}
      if (static_cast<int>(result.rings.size()) < channels) continue;
      std::vector<std::vector<int>> ways;  // on which more may be free than was asked for
      for (const Ring& ring : result.rings) {
        ways.push_back(ring.nodes);
        ways.back().push_back(ring.nodes.front());
      }
      result.rate = evenRate(graph, ways);
      return result;
    }
  }
  return Status::error(Code::invalidArgument, "no ring through all %d terminals was found", result.terminals);
}

}  // namespace eccl::topology
