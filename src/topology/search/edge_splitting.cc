// Edge splitting. A node that only passes data on is removed pair by pair: capacity into it and capacity out
// of it become a route around it, as much as keeps every terminal reachable at its rate. A flow tells how
// much that is.
#include "topology/search/edge_splitting.h"

#include <algorithm>

#include "topology/search/max_flow.h"

namespace eccl::topology {
namespace {

/// The graph while nodes are removed from it. Owner: one call of splitOff(). Edges of the flow network are
/// made once; capacities change.
class Splitting {
 public:
  Splitting(const CapacityGraph& graph, const std::vector<int64_t>& capacities, int64_t each)
      : nodes_(graph.nodes),
        terminals_(graph.terminals),
        needed_(each * static_cast<int64_t>(graph.terminals.size())),
        flow_(graph.nodes + 3) {
    for (int node = 0; node < nodes_; ++node) {
      flow_.add(source_(), node, 0);
      flow_.add(node, sink_(), 0);
    }
    flow_.add(source_(), feed_(), MaxFlow::kUnlimited);  // the feed is on the source's side of every cut
    for (int terminal : terminals_) flow_.add(feed_(), terminal, each);
    for (size_t e = 0; e < graph.edges.size(); ++e) {
      if (capacities[e] > 0) grow({{graph.edges[e].from, graph.edges[e].to}, capacities[e]});
    }
  }

  // Removes all nodes that are no terminals. False if one cannot be removed.
  bool run() {
    std::vector<bool> terminal(static_cast<size_t>(nodes_));
    for (int t : terminals_) terminal[static_cast<size_t>(t)] = true;
    for (int node = 0; node < nodes_; ++node) {
      if (!terminal[static_cast<size_t>(node)] && !remove(node)) return false;
    }
    return true;
  }
  Routes take() {
    std::erase_if(routes_, [](const auto& entry) { return entry.second.empty(); });
    return std::move(routes_);
  }

 private:
  int source_() const { return nodes_; }
  int sink_() const { return nodes_ + 1; }
  int feed_() const { return nodes_ + 2; }

  // The capacity that is left between two nodes.
  int64_t between(int from, int to) const {
    const auto edge = edges_.find({from, to});
    return edge == edges_.end() ? 0 : flow_.capacity(edge->second);
  }
  // Adds a route, and its amount to the capacity between its ends.
  void grow(Route route) {
    const std::pair ends(route.nodes.front(), route.nodes.back());
    if (const auto edge = edges_.find(ends); edge != edges_.end())
      flow_.setCapacity(edge->second, flow_.capacity(edge->second) + route.amount);
    else
      edges_[ends] = flow_.add(ends.first, ends.second, route.amount);
    routes_[ends].push_back(std::move(route));
  }
  // Takes capacity away between two nodes, and the routes that it consists of.
  std::vector<Route> shrink(int from, int to, int64_t amount) {
    flow_.setCapacity(edges_[{from, to}], between(from, to) - amount);
    return takeRoutes(routes_[{from, to}], amount);
  }
  static std::vector<Route> takeRoutes(std::vector<Route>& routes, int64_t amount) {
    std::vector<Route> taken;
    while (amount > 0) {
      Route& last = routes.back();
      const int64_t part = std::min(amount, last.amount);
      taken.push_back({last.nodes, part});
      amount -= part;
      if ((last.amount -= part) == 0) routes.pop_back();
    }
    return taken;
  }

  // Splits everything off at `through`: false if capacity is left both into it and out of it.
  bool remove(int through) {
    for (bool back : {false, true}) {  // to go back where one came from is the last resort
      for (int from = 0; from < nodes_; ++from) {
        for (int to = 0; to < nodes_ && between(from, through) > 0; ++to) {
          if ((from == to) != back || between(through, to) == 0) continue;
          if (const int64_t amount = safe(from, through, to); amount > 0) split(from, through, to, amount);
        }
      }
    }
    bool in = false, out = false;
    for (int node = 0; node < nodes_; ++node) {
      in |= between(node, through) > 0;
      out |= between(through, node) > 0;
    }
    if (in && out) return false;
    for (int node = 0; node < nodes_; ++node) {  // a way in without a way out, or the reverse: of no use
      for (const auto& [from, to] : {std::pair(node, through), std::pair(through, node)}) {
        if (between(from, to) > 0) shrink(from, to, between(from, to));
      }
    }
    return true;
  }

  void split(int from, int through, int to, int64_t amount) {
    std::vector<Route> in = shrink(from, through, amount), out = shrink(through, to, amount);
    if (from == to) return;
    while (!in.empty()) {
      const int64_t part = std::min(in.back().amount, out.back().amount);
      Route route{in.back().nodes, part};
      route.nodes.insert(route.nodes.end(), out.back().nodes.begin() + 1, out.back().nodes.end());
      if ((in.back().amount -= part) == 0) in.pop_back();
      if ((out.back().amount -= part) == 0) out.pop_back();
      grow(std::move(route));
    }
  }

  // So much can be taken from (from, through) and (through, to), and given to (from, to), that every cut
  // between the feed and a terminal keeps what is needed. A cut loses only if `through` is on one side, and
  // both others are on the other.
  int64_t safe(int from, int through, int to) {
    int64_t amount = std::min(between(from, through), between(through, to));
    for (int terminal : terminals_) {
      if (terminal != from && terminal != to) amount = spare({from, to}, {through, terminal}, amount);
      amount = spare({through}, {from, to, terminal}, amount);
      if (amount == 0) break;
    }
    return amount;
  }

  // What the smallest cut between these has beyond what is needed; at most `most`.
  int64_t spare(std::initializer_list<int> sources, std::initializer_list<int> sinks, int64_t most) {
    if (most == 0) return 0;
    const auto set = [this](std::initializer_list<int> ends, int which, int64_t capacity) {
      for (int node : ends) flow_.setCapacity(2 * node + which, capacity);
    };
    set(sources, 0, MaxFlow::kUnlimited);
    set(sinks, 1, MaxFlow::kUnlimited);
    const int64_t beyond = flow_.flow(source_(), sink_(), needed_ + most) - needed_;
    set(sources, 0, 0);
    set(sinks, 1, 0);
    return std::clamp<int64_t>(beyond, 0, most);
  }

  const int nodes_;
  const std::vector<int>& terminals_;
  const int64_t needed_;
  MaxFlow flow_;  // nodes' edges from the source and to the sink come first: 2 * node and 2 * node + 1
  std::map<std::pair<int, int>, int> edges_;  // their numbers in flow_
  Routes routes_;
};

}  // namespace

std::optional<Routes> splitOff(const CapacityGraph& graph, const std::vector<int64_t>& capacities,
                               int64_t each) {
  Splitting splitting(graph, capacities, each);
  if (!splitting.run()) return std::nullopt;
  return splitting.take();
}

}  // namespace eccl::topology
