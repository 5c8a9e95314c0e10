// What differs between two clusters, or between a cluster and itself some time ago.
#include <algorithm>
#include <utility>

#include "cluster.h"
#include "differences.h"

namespace eccl::topo {
namespace {

/// The other cluster's hosts by their index in this one; -1: it has none like it.
std::vector<int> matchHosts(const topology::Cluster& cluster, const topology::Cluster& other, bool byName) {
  std::map<std::string, int> named;
  for (size_t h = 0; h < other.hosts.size(); ++h) named[other.hosts[h].name] = static_cast<int>(h);
  std::vector<int> matches(cluster.hosts.size(), -1);
  for (size_t h = 0; h < matches.size(); ++h) {
    if (!byName) {
      if (h < other.hosts.size()) matches[h] = static_cast<int>(h);
    } else if (const auto found = named.find(cluster.hosts[h].name); found != named.end()) {
      matches[h] = found->second;
    }
  }
  return matches;
}

bool anyNameIsShared(const topology::Cluster& cluster, const topology::Cluster& other) {
  const auto matches = matchHosts(cluster, other, true);
  return std::any_of(matches.begin(), matches.end(), [](int match) { return match >= 0; });
}

/// What a host is called in the comparison, so that matched ones are called alike.
using HostNames = std::vector<std::string>;

std::string deviceOf(const topology::Cluster& cluster, int host, int device) {
  return cluster.typeOf(host).devices[static_cast<size_t>(device)].name;
}

/// All but what hosts are made of.
Things thingsOf(const topology::Cluster& cluster, const HostNames& names) {
  Things things;
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const topology::ClusterHost& host = cluster.hosts[h];
    things["host " + names[h]] = {{"name", host.name}};
    for (const topology::Uplink& uplink : host.uplinks) {
      things["cable of " + names[h] + "/" + deviceOf(cluster, static_cast<int>(h), uplink.port)] = {
          {"switch", cluster.switches[static_cast<size_t>(uplink.toSwitch)].name},
          {"gigabytes", uplink.gigabytes},
          {"microseconds", uplink.microseconds}};
    }
  }
  for (const topology::Switch& each : cluster.switches) {
    Json& facts = things["switch " + each.name] = {{"tier", each.tier}};
    if (each.ports > 0) facts["ports"] = each.ports;
    for (const auto& [name, number] : {std::pair{"pod", each.pod}, {"rail", each.rail}, {"plane", each.plane}})
      if (number) facts[name] = *number;
  }
  for (const topology::Trunk& trunk : cluster.trunks) {
    std::string a = cluster.switches[static_cast<size_t>(trunk.a)].name;
    std::string b = cluster.switches[static_cast<size_t>(trunk.b)].name;
    if (b < a) std::swap(a, b);
    const std::string first = "link from " + a + " to " + b;
    std::string name = first;
    for (int more = 2; things.count(name) > 0; ++more) name = first + ", " + std::to_string(more);
    things[name] = {
        {"count", trunk.count}, {"gigabytes", trunk.gigabytes}, {"microseconds", trunk.microseconds}};
  }
  for (size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
    const topology::RankPlace& place = cluster.ranks[rank];
    things["rank " + std::to_string(rank)] = {
        {"place", names[static_cast<size_t>(place.host)] + "/" + deviceOf(cluster, place.host, place.device)}};
  }
  return things;
}

/// What matched hosts are made of; those that differ in the same way are told once.
Status compareTypes(const topology::Cluster& cluster, const topology::Cluster& other,
                    const std::vector<int>& matches, std::vector<Difference>& found) {
  std::map<std::pair<int, int>, std::vector<size_t>> alike;
  for (size_t h = 0; h < matches.size(); ++h) {
    if (matches[h] >= 0)
      alike[{cluster.hosts[h].type, other.hosts[static_cast<size_t>(matches[h])].type}].push_back(h);
  }
  for (const auto& [types, hosts] : alike) {
    ECCL_ASSIGN(auto differences, differencesOf(cluster.types[static_cast<size_t>(types.first)],
                                                other.types[static_cast<size_t>(types.second)]));
    std::string where = cluster.hosts[hosts[0]].name;
    if (hosts.size() > 1) where += " and " + std::to_string(hosts.size() - 1) + " more";
    for (Difference& difference : differences) {
      difference.where = where + ": " + difference.where;
      found.push_back(std::move(difference));
    }
  }
  return {};
}

}  // namespace

int diff(const topology::Cluster& cluster, const topology::Cluster& other, const Options& options) {
  const bool byName = anyNameIsShared(cluster, other);
  const std::vector<int> matches = matchHosts(cluster, other, byName);
  HostNames names, otherNames;
  for (const topology::ClusterHost& host : cluster.hosts) names.push_back(host.name);
  for (const topology::ClusterHost& host : other.hosts) otherNames.push_back(host.name);
  for (size_t h = 0; h < matches.size(); ++h)
    if (matches[h] >= 0) otherNames[static_cast<size_t>(matches[h])] = names[h];
  std::vector<Difference> found;
  const Status compared = compareTypes(cluster, other, matches, found);
  if (!compared.ok()) return unreadable(compared);
  compareThings(thingsOf(cluster, names), thingsOf(other, otherNames), found);
  return report(found, options);
}

}  // namespace eccl::topo
