// Clusters in words: what they are made of, and the ways in them.
#include "cluster.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "topology/formats/cluster_json.h"
#include "topology/model/host_groups.h"
#include "topology/model/link_model.h"
#include "topology/paths/cluster_paths.h"

namespace eccl::topo {
namespace {

using Json = nlohmann::ordered_json;

size_t countOf(const topology::Host& host, topology::DeviceKind kind) {
  return host.all(kind).size();
}

std::string plural(size_t count, const char* what) {
  return format("%zu %s%s", count, what, count == 1 ? "" : "s");
}

/// The speed of a host's ports, if all have the same that is known; 0 otherwise.
double speedOfPorts(const topology::Host& host) {
  const std::vector<int> ports = topology::networkPorts(host);
  double speed = 0;
  for (const topology::Link& link : topology::linksOf(host)) {
    if (link.kind != topology::LinkKind::network ||
        std::find(ports.begin(), ports.end(), link.a) == ports.end())
      continue;
    if (link.assumed || (speed > 0 && link.gigabytes != speed)) return 0;
    speed = link.gigabytes;
  }
  return speed;
}

/// The ranks' places of one host, or the one device of it that --from names.
std::vector<topology::RankPlace> startsOf(const topology::Cluster& cluster, const Options& options,
                                          const std::vector<topology::RankPlace>& all) {
  const size_t slash = options.from.find('/');
  const std::string hostName = options.from.substr(0, slash);
  int host = 0;
  while (!hostName.empty() && host < static_cast<int>(cluster.hosts.size()) &&
         cluster.hosts[static_cast<size_t>(host)].name != hostName)
    ++host;
  if (host == static_cast<int>(cluster.hosts.size())) misused("--from " + hostName + ": there is no such host");
  if (slash != std::string::npos) {
    const int device = cluster.typeOf(host).find(options.from.substr(slash + 1));
    if (device == topology::Device::kNone) misused("--from " + options.from + ": the host has no such device");
    return {{host, device}};
  }
  std::vector<topology::RankPlace> starts;
  for (const topology::RankPlace& place : all) {
    if (place.host == host && std::find(starts.begin(), starts.end(), place) == starts.end())
      starts.push_back(place);
  }
  return starts;
}

}  // namespace

std::string nameOf(const topology::Cluster& cluster, const topology::RankPlace& place) {
  return cluster.hosts[static_cast<size_t>(place.host)].name + "/" +
         cluster.typeOf(place.host).devices[static_cast<size_t>(place.device)].name;
}

int generate(const topology::Host& host, const Options& options) {
  topology::ClosShape shape = options.clos;
  shape.host = host;
  if (!options.speedGiven) {
    shape.portGigabytes = shape.trunkGigabytes = speedOfPorts(host);
    if (!(shape.portGigabytes > 0) && !topology::networkPorts(host).empty())
      misused("the ports of this host differ in speed, or it is not known: say it with --speed");
    if (topology::networkPorts(host).empty())
      shape.portGigabytes = shape.trunkGigabytes = 1;  // the error is another
  }
  const Result<topology::Cluster> cluster = topology::makeClos(shape);
  return cluster.ok() ? dump(*cluster, options) : unreadable(cluster.status());
}

topology::Host hostOf(const topology::Cluster& cluster, const Options& options) {
  size_t host = 0;
  while (host < cluster.hosts.size() && cluster.hosts[host].name != options.host) ++host;
  if (host == cluster.hosts.size()) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(options.host.c_str(), &end, 10);
    if (std::isdigit(static_cast<unsigned char>(options.host[0])) == 0 || *end != '\0' || number >= host)
      misused(format("--host %s is neither a host's name nor a number from 0 to %zu", options.host.c_str(),
                     host - 1));
    host = number;
  }
  topology::Host found = cluster.typeOf(static_cast<int>(host));
  found.name = cluster.hosts[host].name;
  return found;
}

int dump(const topology::Cluster& cluster, const Options& options) {
  if (options.format == "xml")
    misused(
        "XML is of one machine, and the file is a cluster: choose one of its hosts by --host, or --format "
        "json");
  const Result<std::string> json = topology::toJson(cluster);
  return json.ok() ? write(*json, options) : unreadable(json.status());
}

int draw(const topology::Cluster& cluster, const Options& options) {
  return write(drawing(cluster), options);
}

int show(const topology::Cluster& cluster, const Options& options) {
  if (options.json) return dump(cluster, options);
  if (!cluster.name.empty()) std::printf("%s\n", cluster.name.c_str());
  std::vector<std::vector<int>> byType(cluster.types.size());
  for (size_t h = 0; h < cluster.hosts.size(); ++h)
    byType[static_cast<size_t>(cluster.hosts[h].type)].push_back(static_cast<int>(h));
  for (size_t t = 0; t < byType.size(); ++t) {
    if (byType[t].empty()) continue;
    const topology::Host& type = cluster.types[t];
    const auto& hosts = byType[t];
    const std::string last =
        hosts.size() > 1 ? " to " + cluster.hosts[static_cast<size_t>(hosts.back())].name : "";
    std::printf("%s %s%s: %s, each with %s, %s, %s\n", plural(hosts.size(), "host").c_str(),
                cluster.hosts[static_cast<size_t>(hosts.front())].name.c_str(), last.c_str(), type.name.c_str(),
                plural(countOf(type, topology::DeviceKind::cpu), "CPU").c_str(),
                plural(countOf(type, topology::DeviceKind::accelerator), "accelerator").c_str(),
                plural(topology::networkPorts(type).size(), "port").c_str());
  }
  std::map<int, std::pair<int, int>> tiers;  // switches, and the ports of the largest
  for (const topology::Switch& sw : cluster.switches) {
    auto& [count, ports] = tiers[sw.tier];
    ++count;
    ports = std::max(ports, sw.ports);
  }
  struct Cables {
    int64_t count = 0;
    double gigabytes = 0;
  };
  std::map<std::tuple<int, int, double>, Cables> cables;  // by the tiers at the ends (0: hosts) and speed
  const auto tierOf = [&](int s) { return cluster.switches[static_cast<size_t>(s)].tier; };
  const auto add = [&](int a, int b, double gigabytes, int count) {
    Cables& some = cables[{std::min(a, b), std::max(a, b), gigabytes}];
    some.count += count;
    some.gigabytes += count * gigabytes;
  };
  for (const topology::ClusterHost& host : cluster.hosts) {
    for (const topology::Uplink& link : host.uplinks) add(0, tierOf(link.toSwitch), link.gigabytes, 1);
  }
  for (const topology::Trunk& trunk : cluster.trunks)
    add(tierOf(trunk.a), tierOf(trunk.b), trunk.gigabytes, trunk.count);
  for (const auto& [tier, switches] : tiers) {
    const std::string ports = switches.second > 0 ? format(" of %d ports", switches.second) : "";
    std::printf("tier %d: %d switch%s%s\n", tier, switches.first, switches.first == 1 ? "" : "es",
                ports.c_str());
  }
  for (const auto& [ends, some] : cables) {
    const auto [below, above, speed] = ends;
    const std::string from = below == 0 ? "hosts" : format("tier %d", below);
    std::printf("%s to tier %d: %lld cables of %g GB/s, %g GB/s in all\n", from.c_str(), above,
                static_cast<long long>(some.count), speed, some.gigabytes);
  }
  if (cluster.switches.empty()) std::printf("nothing is known of the network\n");
  if (!cluster.ranks.empty()) std::printf("%s\n", plural(cluster.ranks.size(), "rank").c_str());
  std::printf("%s of hosts that are wired alike\n",
              plural(topology::groupsOf(cluster).groups.size(), "group").c_str());
  return kFine;
}

// Paths that are alike are one line.
int paths(const topology::Cluster& cluster, const Options& options) {
  const std::vector<topology::RankPlace> all =
      cluster.ranks.empty() ? topology::allPlaces(cluster) : cluster.ranks;
  const topology::ClusterPaths found(cluster);
  Json json = Json::array();
  if (!options.json)
    std::printf("%-28s %7s %4s %7s %6s %8s  %s\n", "from", "to", "", "GB/s", "us", "switches",
                "narrowest link, to such as");
  for (const topology::RankPlace& start : startsOf(cluster, options, all)) {
    std::vector<topology::RankPlace> others;
    for (const topology::RankPlace& place : all) {
      if (place.host != start.host) others.push_back(place);
    }
    using Key = std::tuple<int, topology::PathType, double, double>;
    struct Alike {
      size_t count = 0, first = 0;
    };
    std::map<Key, Alike> alike;
    const std::vector<topology::ClusterPath> paths = found.from(start, others);
    for (size_t i = 0; i < paths.size(); ++i) {
      Alike& some = alike[{paths[i].switches, paths[i].type, -paths[i].gigabytes, paths[i].microseconds}];
      if (some.count++ == 0) some.first = i;
    }
    for (const auto& entry : alike) {
      const topology::ClusterPath& path = paths[entry.second.first];
      const std::string from = nameOf(cluster, start), to = nameOf(cluster, others[entry.second.first]);
      const std::string narrowest = topology::describe(cluster, path.bottleneck);
      if (!options.json) {
        std::printf("%-28s %7zu %4s %7.2f %6.2f %8d  %s, %s\n", from.c_str(), entry.second.count,
                    eccl::topology::nameOf(path.type), path.gigabytes, path.microseconds, path.switches,
                    narrowest.c_str(), to.c_str());
        continue;
      }
      Json line{{"from", from},
                {"count", entry.second.count},
                {"to", to},
                {"type", eccl::topology::nameOf(path.type)}};
      if (path.type != topology::PathType::dis) {
        line["gigabytes"] = path.gigabytes;
        line["microseconds"] = path.microseconds;
        line["switches"] = path.switches;
        line["narrowest"] = narrowest;
      }
      json.push_back(std::move(line));
    }
  }
  if (options.json) std::printf("%s\n", json.dump(1).c_str());
  return kFine;
}

}  // namespace eccl::topo
