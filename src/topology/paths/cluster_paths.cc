// Paths between hosts: out of the sender's host by each of its ports, across the switches, and into the
// receiver's host. Receivers that are alike are looked at once.
#include "topology/paths/cluster_paths.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/model/clos.h"
#include "topology/model/host_groups.h"
#include "topology/model/link_model.h"

namespace eccl::topology {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

/// A port that a message can leave or enter a host by.
struct End {
  Uplink cable;
  Path inside;
  bool byPeer() const { return inside.type == PathType::pxn; }
};

/// The ports of a host and their cables; all ports, by cables without limits, where the network is not known.
std::vector<Uplink> cablesOf(const Cluster& cluster, int host) {
  if (!cluster.switches.empty()) return cluster.hosts[static_cast<size_t>(host)].uplinks;
  std::vector<Uplink> cables;
  for (int port : networkPorts(cluster.typeOf(host))) cables.push_back({port, 0, kUnlimited, 0});
  return cables;
}

/// The link that makes a way inside a host as narrow as it is, among those on the way from either end to the
/// top and the fabric links of the device; both ends if it is none of these.
std::pair<int, int> narrowest(const Host& host, int device, int port, double gigabytes) {
  std::vector<bool> near(host.devices.size());
  for (int end : {device, port}) {
    for (; end != Device::kNone; end = host.devices[static_cast<size_t>(end)].parent)
      near[static_cast<size_t>(end)] = true;
  }
  for (const Link& link : linksOf(host)) {
    const bool onWay = near[static_cast<size_t>(link.a)] && near[static_cast<size_t>(link.b)];
    const bool fabric = link.kind >= LinkKind::nvLink && (link.a == device || link.b == device);
    if ((onWay || fabric) && link.gigabytes == gigabytes) return {link.a, link.b};
  }
  return {device, port};
}

}  // namespace

std::string describe(const Cluster& cluster, const Bottleneck& bottleneck) {
  const auto deviceName = [&](int device) {
    return cluster.typeOf(bottleneck.host).devices[static_cast<size_t>(device)].name;
  };
  const auto switchName = [&](int index) { return cluster.switches[static_cast<size_t>(index)].name; };
  if (bottleneck.kind == Bottleneck::Kind::none) return "";
  if (bottleneck.kind == Bottleneck::Kind::trunk) {
    const Trunk& trunk = cluster.trunks[static_cast<size_t>(bottleneck.a)];
    return switchName(trunk.a) + " and " + switchName(trunk.b);
  }
  const ClusterHost& host = cluster.hosts[static_cast<size_t>(bottleneck.host)];
  if (bottleneck.kind == Bottleneck::Kind::inside)
    return host.name + ": " + deviceName(bottleneck.a) + " and " + deviceName(bottleneck.b);
  const auto cable = std::find_if(host.uplinks.begin(), host.uplinks.end(),
                                  [&](const Uplink& link) { return link.port == bottleneck.a; });
  return host.name + ": " + deviceName(bottleneck.a) + " to " + switchName(cable->toSwitch);
}

ClusterPaths::ClusterPaths(const Cluster& cluster) : cluster_(cluster), ways_(cluster) {
  for (const Host& type : cluster.types) insides_.emplace_back(type);
}

std::vector<ClusterPath> ClusterPaths::from(const RankPlace& from, std::span<const RankPlace> to) const {
  std::vector<End> starts;
  std::map<int, std::vector<SwitchWay>> ways;  // by the switch they start from
  const std::vector<Path> insides =
      insides_[static_cast<size_t>(cluster_.hosts[static_cast<size_t>(from.host)].type)].from(from.device);
  for (const Uplink& cable : cablesOf(cluster_, from.host)) {
    const Path& inside = insides[static_cast<size_t>(cable.port)];
    if (inside.type > PathType::sys) continue;
    starts.push_back({cable, inside});
    if (!cluster_.switches.empty() && ways.count(cable.toSwitch) == 0)
      ways[cable.toSwitch] = ways_.from(cable.toSwitch);
  }

  std::map<std::pair<int, int>, std::vector<Path>> inwards;  // by type and port
  const auto endsOf = [&](const RankPlace& place) {
    std::vector<End> ends;
    const int type = cluster_.hosts[static_cast<size_t>(place.host)].type;
    for (const Uplink& cable : cablesOf(cluster_, place.host)) {
      auto found = inwards.find({type, cable.port});
      if (found == inwards.end())
        found =
            inwards.emplace(std::pair(type, cable.port), insides_[static_cast<size_t>(type)].from(cable.port))
                .first;
      const Path& inside = found->second[static_cast<size_t>(place.device)];
      if (inside.type <= PathType::sys) ends.push_back({cable, inside});
    }
    if (std::any_of(ends.begin(), ends.end(), [](const End& end) { return !end.byPeer(); }))
      std::erase_if(ends, [](const End& end) { return end.byPeer(); });
    return ends;
  };

  const auto join = [&](const RankPlace& place, const End& start, const End& end) {
    ClusterPath path;
    SwitchWay way;
    if (!cluster_.switches.empty())
      way = ways.at(start.cable.toSwitch)[static_cast<size_t>(end.cable.toSwitch)];
    if (!cluster_.switches.empty() && way.switches == 0) return path;
    path.type = start.byPeer() || end.byPeer() ? PathType::pxn : PathType::net;
    path.switches = way.switches;
    path.microseconds = start.inside.microseconds + start.cable.microseconds + way.microseconds +
                        end.cable.microseconds + end.inside.microseconds;
    path.fromPort = start.cable.port;
    path.toPort = end.cable.port;
    path.gigabytes = std::min({start.inside.gigabytes, start.cable.gigabytes, way.gigabytes,
                               end.cable.gigabytes, end.inside.gigabytes});
    using Kind = Bottleneck::Kind;
    // The link inside is looked for only once a path is chosen.
    if (path.gigabytes == start.inside.gigabytes)
      path.bottleneck = {Kind::inside, from.host, from.device, path.fromPort};
    else if (path.gigabytes == start.cable.gigabytes)
      path.bottleneck = {Kind::cable, from.host, path.fromPort, 0};
    else if (path.gigabytes == way.gigabytes)
      path.bottleneck = {Kind::trunk, 0, way.narrowest, 0};
    else if (path.gigabytes == end.cable.gigabytes)
      path.bottleneck = {Kind::cable, place.host, path.toPort, 0};
    else
      path.bottleneck = {Kind::inside, place.host, place.device, path.toPort};
    return path;
  };

  const auto search = [&](const RankPlace& place) {
    const auto rank = [](const ClusterPath& path) {
      return std::tuple(-path.gigabytes, path.switches, path.type == PathType::pxn, path.microseconds);
    };
    ClusterPath best;
    for (const End& end : endsOf(place)) {
      for (const End& start : starts) {
        const ClusterPath path = join(place, start, end);
        if (path.type != PathType::dis && (best.type == PathType::dis || rank(path) < rank(best))) best = path;
      }
    }
    if (best.bottleneck.kind == Bottleneck::Kind::inside) {
      Bottleneck& link = best.bottleneck;
      std::tie(link.a, link.b) = narrowest(cluster_.typeOf(link.host), link.a, link.b, best.gigabytes);
    }
    return best;
  };

  const std::vector<int> groupOf = groupsOf(cluster_).groupOf;
  std::map<std::pair<int, int>, ClusterPath> known;  // by the receiver's group and device
  std::vector<ClusterPath> paths;
  for (const RankPlace& place : to) {
    const std::pair key(groupOf[static_cast<size_t>(place.host)], place.device);
    auto found = known.find(key);
    if (found == known.end()) found = known.emplace(key, search(place)).first;
    paths.push_back(found->second);
    if (paths.back().bottleneck.kind != Bottleneck::Kind::trunk && paths.back().bottleneck.host != from.host)
      paths.back().bottleneck.host = place.host;
  }
  return paths;
}

}  // namespace eccl::topology
