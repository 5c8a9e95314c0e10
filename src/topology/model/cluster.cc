// What makes a cluster valid, and the merging of its hosts.
#include "topology/model/cluster.h"

#include <cstdarg>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "topology/model/disjoint_sets.h"

namespace eccl::topology {
namespace {

__attribute__((format(printf, 1, 2))) Status wrong(const char* what, ...) {
  va_list arguments;
  va_start(arguments, what);
  const std::string sentence = formatList(what, arguments);
  va_end(arguments);
  return Status::error(Code::invalidArgument, "cluster: %s", sentence.c_str());
}

/// As for hosts: sums and products of some stay finite; NaN is none.
bool isTime(double microseconds) {
  return microseconds >= 0 && microseconds <= 1e9;
}
bool isBandwidth(double gigabytes) {
  return gigabytes >= 1e-6 && gigabytes <= 1e9;
}

template <class Value>
Status within(const char* what, const std::vector<Value>& values, int most) {
  if (values.size() <= static_cast<size_t>(most)) return {};
  return wrong("%zu %s are more than the %d that can be", values.size(), what, most);
}

template <class Named>
Status namesAreUnique(const char* what, const std::vector<Named>& all) {
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name.empty()) return wrong("%s %zu has no name", what, i);
    if (!names.insert(all[i].name).second)
      return wrong("%s %zu has another's name, %s", what, i, all[i].name.c_str());
  }
  return {};
}

bool mayBeWired(const Host& type, int device) {
  const DeviceKind kind = type.devices[static_cast<size_t>(device)].kind;
  return kind == DeviceKind::port || kind == DeviceKind::nic;
}

Status validate(const Cluster& cluster, const ClusterHost& host, std::vector<int64_t>& used) {
  const char* name = host.name.c_str();
  if (host.type < 0 || host.type >= static_cast<int>(cluster.types.size()))
    return wrong("host %s is of type %d of %zu", name, host.type, cluster.types.size());
  const Host& type = cluster.types[static_cast<size_t>(host.type)];
  int before = Device::kNone;
  for (const Uplink& link : host.uplinks) {
    if (link.port < 0 || link.port >= static_cast<int>(type.devices.size()) || !mayBeWired(type, link.port))
      return wrong("device %d of host %s is wired, but is no port of a %s", link.port, name, type.name.c_str());
    const char* port = type.devices[static_cast<size_t>(link.port)].name.c_str();
    if (link.port == before) return wrong("port %s of host %s is wired twice", port, name);
    if (link.port < before) return wrong("the uplinks of host %s are not in the order of its ports", name);
    before = link.port;
    if (link.toSwitch < 0 || link.toSwitch >= static_cast<int>(cluster.switches.size()))
      return wrong("port %s of host %s is wired to switch %d of %zu", port, name, link.toSwitch,
                   cluster.switches.size());
    if (!isBandwidth(link.gigabytes)) return wrong("port %s of host %s has no possible bandwidth", port, name);
    if (!isTime(link.microseconds)) return wrong("port %s of host %s has no possible latency", port, name);
    ++used[static_cast<size_t>(link.toSwitch)];
  }
  return {};
}

Status validate(const Cluster& cluster, const Trunk& trunk, std::vector<int64_t>& used) {
  const int switches = static_cast<int>(cluster.switches.size());
  for (int end : {trunk.a, trunk.b}) {
    if (end < 0 || end >= switches) return wrong("a link names switch %d of %d", end, switches);
  }
  const char* a = cluster.switches[static_cast<size_t>(trunk.a)].name.c_str();
  const char* b = cluster.switches[static_cast<size_t>(trunk.b)].name.c_str();
  if (trunk.a == trunk.b) return wrong("switch %s has a link to itself", a);
  if (trunk.count < 1) return wrong("the link from %s to %s has a count below 1", a, b);
  if (!isBandwidth(trunk.gigabytes)) return wrong("the link from %s to %s has no possible bandwidth", a, b);
  if (!isTime(trunk.microseconds)) return wrong("the link from %s to %s has no possible latency", a, b);
  used[static_cast<size_t>(trunk.a)] += trunk.count;
  used[static_cast<size_t>(trunk.b)] += trunk.count;
  return {};
}

Status isConnected(const Cluster& cluster) {
  const size_t hosts = cluster.hosts.size(), all = hosts + cluster.switches.size();
  if (cluster.switches.empty()) return {};
  DisjointSets parts(all);
  for (size_t h = 0; h < hosts; ++h) {
    for (const Uplink& link : cluster.hosts[h].uplinks)
      parts.join(h, hosts + static_cast<size_t>(link.toSwitch));
  }
  for (const Trunk& trunk : cluster.trunks)
    parts.join(hosts + static_cast<size_t>(trunk.a), hosts + static_cast<size_t>(trunk.b));
  for (size_t i = 1; i < all; ++i) {
    if (parts.of(i) == parts.of(0)) continue;
    const auto titleOf = [&](size_t node) {
      return node < hosts ? "host " + cluster.hosts[node].name
                          : "switch " + cluster.switches[node - hosts].name;
    };
    return wrong("%s and %s are not connected: wire them, or describe them as two clusters", titleOf(0).c_str(),
                 titleOf(i).c_str());
  }
  return {};
}

Status validateRanks(const Cluster& cluster) {
  for (size_t r = 0; r < cluster.ranks.size(); ++r) {
    const RankPlace& place = cluster.ranks[r];
    if (place.host < 0 || place.host >= static_cast<int>(cluster.hosts.size()))
      return wrong("rank %zu is on host %d of %zu", r, place.host, cluster.hosts.size());
    const Host& type = cluster.typeOf(place.host);
    const bool there = place.device >= 0 && place.device < static_cast<int>(type.devices.size());
    const DeviceKind kind = there ? type.devices[static_cast<size_t>(place.device)].kind : DeviceKind::other;
    if (kind != DeviceKind::accelerator && kind != DeviceKind::cpu)
      return wrong("rank %zu uses device %d of host %s, which is no accelerator or CPU", r, place.device,
                   cluster.hosts[static_cast<size_t>(place.host)].name.c_str());
  }
  return {};
}

}  // namespace

Host withoutIdentity(Host host) {
  host.name.clear();
  host.unread.clear();
  for (Device& device : host.devices) {
    if (device.cpu) device.cpu->hostHash.reset();
    if (device.accelerator) device.accelerator->rank.reset();
    if (device.port) device.port->guid = isRdma(device) ? std::optional(kNobodysGuid) : std::nullopt;
  }
  return host;
}

MergedHosts mergeHosts(std::span<const Host> hosts) {
  MergedHosts merged;
  std::map<Host, int> known;
  std::unordered_set<std::string> taken;
  std::unordered_map<std::string, int> names;  // and the last number behind each
  for (const Host& host : hosts) {
    const auto [place, isNew] = known.emplace(withoutIdentity(host), static_cast<int>(merged.types.size()));
    merged.typeOf.push_back(place->second);
    if (!isNew) continue;
    Host& type = merged.types.emplace_back(place->first);
    const std::string base = host.name.empty() ? "host" : host.name;
    type.name = base;
    for (int& next = names.emplace(base, 1).first->second; !taken.insert(type.name).second;)
      type.name = base + format("#%d", ++next);
  }
  return merged;
}

Status validate(const Cluster& cluster) {
  ECCL_TRY(within("hosts", cluster.hosts, kMaxHosts));
  ECCL_TRY(within("switches", cluster.switches, kMaxSwitches));
  ECCL_TRY(within("links between switches", cluster.trunks, kMaxTrunks));
  ECCL_TRY(within("ranks", cluster.ranks, kMaxRanks));
  if (cluster.hosts.empty()) return wrong("there is no host");
  ECCL_TRY(namesAreUnique("host type", cluster.types));
  ECCL_TRY(namesAreUnique("host", cluster.hosts));
  ECCL_TRY(namesAreUnique("switch", cluster.switches));
  for (const Host& type : cluster.types) ECCL_TRY(validate(type));
  std::vector<int64_t> used(cluster.switches.size());  // ports that are wired
  size_t uplinks = 0;
  for (const ClusterHost& host : cluster.hosts) {
    ECCL_TRY(validate(cluster, host, used));
    uplinks += host.uplinks.size();
  }
  if (uplinks > kMaxUplinks)
    return wrong("%zu ports are wired, more than the %d that can be", uplinks, kMaxUplinks);
  for (const Trunk& trunk : cluster.trunks) ECCL_TRY(validate(cluster, trunk, used));
  for (size_t s = 0; s < used.size(); ++s) {
    const Switch& sw = cluster.switches[s];
    if (sw.tier < 1 || sw.tier > kMaxTier)
      return wrong("switch %s is of tier %d, not of 1 to %d", sw.name.c_str(), sw.tier, kMaxTier);
    if (sw.ports < 0 || (sw.ports > 0 && used[s] > sw.ports))
      return wrong("switch %s has %d ports, but %lld are wired", sw.name.c_str(), sw.ports,
                   static_cast<long long>(used[s]));
  }
  ECCL_TRY(validateRanks(cluster));
  return isConnected(cluster);
}

std::vector<RankPlace> allPlaces(const Cluster& cluster) {
  std::vector<std::vector<int>> participants;
  for (const Host& type : cluster.types) participants.push_back(participantsOf(type));
  std::vector<RankPlace> places;
  for (int h = 0; h < static_cast<int>(cluster.hosts.size()); ++h) {
    for (int device : participants[static_cast<size_t>(cluster.hosts[static_cast<size_t>(h)].type)])
      places.push_back({h, device});
  }
  return places;
}

}  // namespace eccl::topology
