// Ways between switches by breadth-first search: layer by layer, so that the fewest switches come first, and
// within a layer the widest.
#include "topology/paths/switch_ways.h"

namespace eccl::topology {

SwitchWays::SwitchWays(const Cluster& cluster) : edges_(cluster.switches.size()) {
  for (size_t t = 0; t < cluster.trunks.size(); ++t) {
    const Trunk& trunk = cluster.trunks[t];
    const double gigabytes = trunk.gigabytes * trunk.count;
    edges_[static_cast<size_t>(trunk.a)].push_back(
        {trunk.b, static_cast<int>(t), gigabytes, trunk.microseconds});
    edges_[static_cast<size_t>(trunk.b)].push_back(
        {trunk.a, static_cast<int>(t), gigabytes, trunk.microseconds});
  }
}

// Breadth first: all ways to a switch are known before it is left.
std::vector<SwitchWay> SwitchWays::from(int theSwitch) const {
  std::vector<SwitchWay> ways(edges_.size());
  ways[static_cast<size_t>(theSwitch)].switches = 1;
  std::vector<int> queue = {theSwitch};
  for (size_t at = 0; at < queue.size(); ++at) {
    const SwitchWay here = ways[static_cast<size_t>(queue[at])];
    for (const Edge& edge : edges_[static_cast<size_t>(queue[at])]) {
      SwitchWay next = here;
      ++next.switches;
      next.microseconds += edge.microseconds;
      if (edge.gigabytes < next.gigabytes) {
        next.gigabytes = edge.gigabytes;
        next.narrowest = edge.trunk;
      }
      SwitchWay& best = ways[static_cast<size_t>(edge.to)];
      if (best.switches == 0) queue.push_back(edge.to);
      const bool shorter = best.switches == 0 || next.switches < best.switches;
      const bool wider = next.gigabytes > best.gigabytes;
      const bool quicker = next.gigabytes == best.gigabytes && next.microseconds < best.microseconds;
      if (shorter || (next.switches == best.switches && (wider || quicker))) best = next;
    }
  }
  return ways;
}

}  // namespace eccl::topology
