// The bound of a cluster, cut by cut. Every set of devices and switches that is considered gives the
// bandwidth that leads out of it, over the ranks inside it; the least such ratio is the bound. Work is done
// once for each kind of host, so it does not grow with the number of hosts that are alike.
#include "topology/search/cluster_bound.h"

#include <algorithm>
#include <map>

#include "topology/paths/paths.h"
#include "topology/search/cut_bound.h"
#include "topology/search/graph_of_cluster.h"
#include "topology/search/graph_of_host.h"
#include "topology/search/host_kinds.h"
#include "topology/search/max_flow.h"
#include "topology/search/switch_parts.h"

namespace eccl::topology {
namespace {

/// What of a host is on the side of some of its ports.
struct Slice {
  double gigabytes = 0;  // between it and the rest of the host
  int ranks = 0;
};

/// One search. Keeps the worst cut so far.
class BoundSearch {
 public:
  explicit BoundSearch(const Cluster& cluster) : cluster_(cluster), kinds_(kindsOf(cluster)) {}

  Result<ClusterBound> run() {
    if (kinds_.ranks < 2)
      return Status::error(Code::invalidArgument, "cluster: a search needs two ranks or more, not %d",
                           kinds_.ranks);
    for (const HostKind& kind : kinds_.kinds) withinHost(kind);
    int tiers = 0;
    for (const Switch& sw : cluster_.switches) tiers = std::max(tiers, sw.tier);
    for (int tier = 1; tier <= tiers; ++tier) {
      hostsUpTo(tier);
      railsUpTo(tier);
    }
    if (worst_.gigabytes > 0) return worst_;
    return Status::error(Code::invalidArgument, "cluster: %s: no way to the others", worst_.inside.c_str());
  }

 private:
  const std::string& nameOf(int host) const { return cluster_.hosts[static_cast<size_t>(host)].name; }

  template <class Name>
  // Keeps a cut if it is worse than all before. `name` makes the text for people, and is only called then.
  // Sets of no rank or of all say nothing.
  void consider(double gigabytes, int ranks, Name name) {
    if (ranks < 1 || ranks >= kinds_.ranks) return;
    if (worst_.ranks > 0 && gigabytes * worst_.ranks >= worst_.gigabytes * ranks) return;
    worst_ = {gigabytes, ranks, name()};
  }
  /// A set, and everything but it: links carry as much both ways.
  template <class Name>
  void considerBothSides(double gigabytes, int ranks, Name name) {
    consider(gigabytes, ranks, name);
    consider(gigabytes, kinds_.ranks - ranks, [&] { return "all but " + name(); });
  }

  // The worst division of one host's devices, with the rest of the cluster as one more node.
  void withinHost(const HostKind& kind) {
    if (kind.ranks == 0) return;
    const WeightedGraph host = graphOfHostIn(cluster_, kind.host, kind.users, kinds_.ranks - kind.ranks);
    if (host.graph.terminals.size() < 2) return;
    const CutBound cut = cutBound(host.graph, host.weights);
    const int rest = host.graph.nodes - 1;
    const bool others = cut.inside[static_cast<size_t>(rest)];
    consider(static_cast<double>(cut.capacity) / kCapacityPerGigabyte, cut.terminals, [&] {
      std::string names;
      bool all = true;
      for (const auto& user : kind.users) {
        const bool named = cut.inside[static_cast<size_t>(user.first)] != others;
        all &= named;
        if (named) names += cluster_.typeOf(kind.host).devices[static_cast<size_t>(user.first)].name + " ";
      }
      return (others ? "all but " : "") + (all ? "" : names + "of ") + nameOf(kind.host);
    });
  }

  // For each part that hosts and switches up to a tier make: what leads out of it by cables and trunks.
  void hostsUpTo(int tier) {
    const SwitchParts parts = joinedWithHosts(cluster_, tier);
    std::vector<int> ranks(parts.count), hosts(parts.count), first(parts.count, -1);
    std::vector<double> out(parts.count);
    for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
      const size_t part = parts.ofHost[h];
      if (hosts[part]++ == 0) first[part] = static_cast<int>(h);
      ranks[part] += kinds_.kinds[static_cast<size_t>(kinds_.kindOf[h])].ranks;
      for (const Uplink& link : cluster_.hosts[h].uplinks)
        addLink(parts, out, part, link.toSwitch, link.gigabytes);
    }
    addTrunks(parts, out);
    for (size_t part = 0; part < parts.count; ++part) {
      considerBothSides(out[part], ranks[part], [&] {
        if (hosts[part] == 1) return nameOf(first[part]);
        return format("%s and %d more hosts with their switches of tier %d%s", nameOf(first[part]).c_str(),
                      hosts[part] - 1, tier, tier > 1 ? " and below" : "");
      });
    }
  }

  // For each part that switches up to a tier make by themselves: what leads out of it by trunks, and into
  // hosts beyond the slice of each that is best taken along.
  void railsUpTo(int tier) {
    const SwitchParts parts = joinedBySwitches(cluster_, tier);
    std::vector<int> ranks(parts.count), switches(parts.count), first(parts.count, -1);
    std::vector<double> out(parts.count);
    for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
      std::map<size_t, std::vector<int>> portsAt;
      for (const Uplink& link : cluster_.hosts[h].uplinks)
        portsAt[parts.ofSwitch[static_cast<size_t>(link.toSwitch)]].push_back(link.port);
      for (const auto& [part, ports] : portsAt) {
        const Slice slice = sliceOf(kinds_.kindOf[h], ports);
        out[part] += slice.gigabytes;
        ranks[part] += slice.ranks;
      }
    }
    for (size_t s = 0; s < cluster_.switches.size(); ++s) {
      if (switches[parts.ofSwitch[s]]++ == 0) first[parts.ofSwitch[s]] = static_cast<int>(s);
    }
    addTrunks(parts, out);
    for (size_t part = 0; part < parts.count; ++part) {
      considerBothSides(out[part], ranks[part], [&] {
        return cluster_.switches[static_cast<size_t>(first[part])].name +
               (switches[part] > 1 ? format(", %d more switches", switches[part] - 1) : "") +
               format(" and the %d ranks at their ports", ranks[part]);
      });
    }
  }

  // Counts a link for both parts that it joins; one inside a part leads nowhere.
  static void addLink(const SwitchParts& parts, std::vector<double>& out, size_t part, int toSwitch,
                      double gigabytes) {
    const size_t other = parts.ofSwitch[static_cast<size_t>(toSwitch)];
    if (other == part) return;
    out[part] += gigabytes;
    out[other] += gigabytes;
  }
  void addTrunks(const SwitchParts& parts, std::vector<double>& out) const {
    for (const Trunk& trunk : cluster_.trunks)
      addLink(parts, out, parts.ofSwitch[static_cast<size_t>(trunk.a)], trunk.b, trunk.gigabytes * trunk.count);
  }

  /// The users near some ports, and the narrowest cut between these and all others of the host.
  const Slice& sliceOf(int kindIndex, const std::vector<int>& ports) {
    const auto [place, isNew] = slices_.emplace(std::pair(kindIndex, ports), Slice{});
    Slice& slice = place->second;
    if (!isNew) return slice;
    const HostKind& kind = kinds_.kinds[static_cast<size_t>(kindIndex)];
    const WeightedGraph host = graphOfHostIn(cluster_, kind.host, kind.users, 0);
    const auto& uplinks = cluster_.hosts[static_cast<size_t>(kind.host)].uplinks;
    const int rest = host.graph.nodes - 1, source = host.graph.nodes, sink = source + 1;
    MaxFlow flow(host.graph.nodes + 2);
    for (const CapacityEdge& edge : host.graph.edges) {
      if (edge.from != rest && edge.to != rest) flow.add(edge.from, edge.to, edge.capacity);
    }
    const Paths paths(cluster_.typeOf(kind.host));
    std::vector<bool> near(static_cast<size_t>(host.graph.nodes));
    for (const Uplink& link : uplinks) {
      const bool inside = std::find(ports.begin(), ports.end(), link.port) != ports.end();
      flow.add(inside ? source : link.port, inside ? link.port : sink, MaxFlow::kUnlimited);
      if (!inside) continue;
      const std::vector<Path> to = paths.from(link.port);
      for (const auto& user : kind.users) {
        if (to[static_cast<size_t>(user.first)].type <= PathType::pxb || ports.size() == uplinks.size())
          near[static_cast<size_t>(user.first)] = true;
      }
    }
    for (const auto& user : kind.users) {
      const bool inside = near[static_cast<size_t>(user.first)];
      flow.add(inside ? source : user.first, inside ? user.first : sink, MaxFlow::kUnlimited);
      if (inside) slice.ranks += user.second;
    }
    slice.gigabytes = static_cast<double>(flow.flow(source, sink)) / kCapacityPerGigabyte;
    return slice;
  }

  const Cluster& cluster_;
  const HostKinds kinds_;
  std::map<std::pair<int, std::vector<int>>, Slice> slices_;  // by kind and ports
  ClusterBound worst_;
};

}  // namespace

Result<ClusterBound> boundOf(const Cluster& cluster) {
  return BoundSearch(cluster).run();
}

}  // namespace eccl::topology
