#include "topology/search/rail_chains.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "topology/paths/paths.h"
#include "topology/search/graph_of_cluster.h"
#include "topology/search/graph_of_host.h"
#include "topology/search/rings.h"

namespace eccl::topology {
namespace {

class Chains {
 public:
  Chains(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users)
      : host_(cluster.typeOf(host)),
        graph_(graphOfHostIn(cluster, host, users, 0).graph),
        inside_(host_),
        outgoing_(static_cast<size_t>(graph_.nodes)) {
    for (const CapacityEdge& edge : graph_.edges) outgoing_[static_cast<size_t>(edge.from)].push_back(edge.to);
  }

  /// With the last device's data handed on by the one at the port, or sent to the port by itself; nothing if
  /// there is no such way.
  std::optional<RailChains> along(const std::vector<Ring>& rings, const std::vector<int>& ports,
                                  bool handedOn) const {
    RailChains result;
    std::vector<std::vector<int>> ways;
    std::vector<int> opened(static_cast<size_t>(graph_.nodes));
    for (size_t channel = 0; channel < ports.size(); ++channel) {
      const int first = nextTo(ports[channel], opened);
      ++opened[static_cast<size_t>(first)];
      RailChain chain = open(rings[channel % rings.size()].nodes, ports[channel], first, handedOn);
      if (chain.empty()) return {};
      ways.push_back(chain);  // from everything else, by the cable, and back
      ways.back().insert(ways.back().begin(), graph_.nodes - 1);
      ways.back().push_back(graph_.nodes - 1);
      result.chains.push_back(std::move(chain));
    }
    result.gigabytes = evenRate(graph_, ways) / kCapacityPerGigabyte;
    return result;
  }

 private:
  bool isTerminal(int node) const {
    return std::find(graph_.terminals.begin(), graph_.terminals.end(), node) != graph_.terminals.end();
  }

  /// The fewest links from one node to another, past neither terminals nor what is outside; `to` included,
  /// `from` not. Empty: there is no way.
  std::vector<int> route(int from, int to) const {
    std::vector<int> before(static_cast<size_t>(graph_.nodes), -1), queue = {from};
    before[static_cast<size_t>(from)] = from;
    before.back() = from;  // outside
    for (size_t at = 0; at < queue.size() && before[static_cast<size_t>(to)] < 0; ++at) {
      if (queue[at] != from && isTerminal(queue[at])) continue;
      for (int next : outgoing_[static_cast<size_t>(queue[at])]) {
        if (before[static_cast<size_t>(next)] >= 0) continue;
        before[static_cast<size_t>(next)] = queue[at];
        queue.push_back(next);
      }
    }
    std::vector<int> way;
    if (before[static_cast<size_t>(to)] < 0) return way;
    for (int node = to; node != from; node = before[static_cast<size_t>(node)]) way.push_back(node);
    std::reverse(way.begin(), way.end());
    return way;
  }

  /// The terminal that a port reaches best; of several that which the fewest rings have been opened at.
  int nextTo(int port, const std::vector<int>& opened) const {
    const std::vector<Path> paths = inside_.from(port);
    const auto rank = [&](int node) {
      const Path& path = paths[static_cast<size_t>(node)];
      return std::tuple(path.type, -path.gigabytes, path.microseconds, opened[static_cast<size_t>(node)]);
    };
    return *std::min_element(graph_.terminals.begin(), graph_.terminals.end(),
                             [&](int a, int b) { return rank(a) < rank(b); });
  }

  RailChain open(std::vector<int> ring, int port, int first, bool handedOn) const {
    std::rotate(ring.begin(), std::find(ring.begin(), ring.end(), first), ring.end());
    const std::vector<int> in = route(port, first);
    if (in.empty()) return {};
    RailChain chain = {port};
    chain.insert(chain.end(), in.begin(), in.end());
    chain.insert(chain.end(), ring.begin() + 1, ring.end());
    if (handedOn && ring.size() > 1) {
      chain.push_back(first);
    } else {
      while (!isTerminal(chain.back())) chain.pop_back();  // the ring's own way back to its first
    }
    const std::vector<int> out = route(chain.back(), port);
    if (out.empty()) return {};
    chain.insert(chain.end(), out.begin(), out.end());
    return chain;
  }

  const Host& host_;
  const CapacityGraph graph_;
  const Paths inside_;
  std::vector<std::vector<int>> outgoing_;
};

/// The links between accelerators beside PCI, so that rings leave PCI to the ports.
CapacityGraph fabricOf(const Host& host, CapacityGraph graph) {
  const auto onPci = [&](int node) {
    const DeviceKind kind = host.devices[static_cast<size_t>(node)].kind;
    return kind != DeviceKind::accelerator && kind != DeviceKind::nvSwitch;
  };
  std::erase_if(graph.edges, [&](const CapacityEdge& edge) { return onPci(edge.from) || onPci(edge.to); });
  return graph;
}

}  // namespace

Result<RailChains> railChains(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users,
                              const std::vector<int>& ports) {
  const Host& type = cluster.typeOf(host);
  const char* name = cluster.hosts[static_cast<size_t>(host)].name.c_str();
  std::vector<int> terminals;
  for (const auto& user : users) terminals.push_back(user.first);
  std::vector<std::vector<Ring>> candidates;
  if (terminals.size() == 1) {
    candidates = {{{terminals}}};
  } else {
    const CapacityGraph whole = graphOf(type, terminals);
    Status reason;
    for (const CapacityGraph& graph : {fabricOf(type, whole), whole}) {
      Result<Rings> found = searchRings(graph, static_cast<int>(ports.size()));
      if (found.ok()) candidates.push_back(std::move(found->rings));
      reason = found.status();
    }
    if (candidates.empty())
      return Status::error(Code::invalidArgument, "cluster: host %s: %s", name, reason.message().c_str());
  }
  const Chains chains(cluster, host, users);
  std::optional<RailChains> best;
  for (const std::vector<Ring>& rings : candidates) {
    for (bool handedOn : {true, false}) {
      std::optional<RailChains> found = chains.along(rings, ports, handedOn);
      if (found && (!best || found->gigabytes > best->gigabytes)) best = std::move(found);
    }
  }
  if (best) return *std::move(best);
  return Status::error(Code::invalidArgument,
                       "cluster: host %s: no way between a port and the devices that ranks use", name);
}

}  // namespace eccl::topology
