#include "topology/search/graph_of_cluster.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "topology/model/clos.h"
#include "topology/model/link_model.h"
#include "topology/search/graph_of_host.h"

namespace eccl::topology {
namespace {

constexpr int64_t kNoLimit = 1'000'000'000;  // MB/s: 1000 times any port there is

int64_t capacityOf(double gigabytes) {
  return std::clamp<int64_t>(std::llround(std::min(gigabytes, 1e9) * kCapacityPerGigabyte), 1, kNoLimit);
}

void join(CapacityGraph& graph, int a, int b, int64_t capacity) {
  graph.edges.push_back({a, b, capacity});
  graph.edges.push_back({b, a, capacity});
}

/// Its devices as the next nodes, with all links, and its users as terminals. Returns the first node.
int addHost(WeightedGraph& to, const Host& host, const std::vector<std::pair<int, int>>& users) {
  const int first = to.graph.nodes;
  to.graph.nodes += static_cast<int>(host.devices.size());
  for (const Link& link : linksOf(host))
    to.graph.edges.push_back({first + link.a, first + link.b, capacityOf(link.gigabytes)});
  for (const auto& user : users) {
    to.graph.terminals.push_back(first + user.first);
    to.weights.push_back(user.second);
  }
  return first;
}

void addCables(CapacityGraph& graph, const Cluster& cluster, int host, int firstNode, auto nodeOfSwitch) {
  if (cluster.switches.empty()) {
    for (int port : networkPorts(cluster.typeOf(host)))
      join(graph, firstNode + port, nodeOfSwitch(0), kNoLimit);
    return;
  }
  for (const Uplink& link : cluster.hosts[static_cast<size_t>(host)].uplinks)
    join(graph, firstNode + link.port, nodeOfSwitch(link.toSwitch), capacityOf(link.gigabytes));
}

}  // namespace

int WeightedGraph::total() const {
  return std::accumulate(weights.begin(), weights.end(), 0);
}

std::vector<std::vector<std::pair<int, int>>> usersByHost(const Cluster& cluster) {
  std::vector<std::map<int, int>> counts(cluster.hosts.size());
  for (const RankPlace& place : cluster.ranks.empty() ? allPlaces(cluster) : cluster.ranks)
    ++counts[static_cast<size_t>(place.host)][place.device];
  std::vector<std::vector<std::pair<int, int>>> users;
  for (const auto& count : counts) users.emplace_back(count.begin(), count.end());
  return users;
}

WeightedGraph graphOf(const Cluster& cluster) {
  WeightedGraph result;
  std::vector<int> first;
  const auto users = usersByHost(cluster);
  for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h)
    first.push_back(addHost(result, cluster.typeOf(h), users[static_cast<size_t>(h)]));
  CapacityGraph& graph = result.graph;
  const int firstSwitch = graph.nodes;
  graph.nodes += std::max(1, static_cast<int>(cluster.switches.size()));
  for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h)
    addCables(graph, cluster, h, first[static_cast<size_t>(h)], [=](int s) { return firstSwitch + s; });
  for (const Trunk& trunk : cluster.trunks)
    join(graph, firstSwitch + trunk.a, firstSwitch + trunk.b, capacityOf(trunk.gigabytes * trunk.count));
  return result;
}

WeightedGraph graphOfHostIn(const Cluster& cluster, int host, const std::vector<std::pair<int, int>>& users,
                            int others) {
  WeightedGraph result;
  addHost(result, cluster.typeOf(host), users);
  const int rest = result.graph.nodes++;
  if (others > 0) {
    result.graph.terminals.push_back(rest);
    result.weights.push_back(others);
  }
  addCables(result.graph, cluster, host, 0, [=](int) { return rest; });
  return result;
}

}  // namespace eccl::topology
