// Rings on rails, and how near the bound they are.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cluster.h"
#include "topology/search/rail_rings.h"

namespace eccl::topo {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> namesOf(const topology::Host& host, const topology::RailChain& chain) {
  std::vector<std::string> names;
  for (int device : chain) names.push_back(host.devices[static_cast<size_t>(device)].name);
  return names;
}

/// A host that each entry of RailRings::chains is of.
std::vector<int> examplesOf(const topology::RailRings& rings) {
  std::vector<int> examples(rings.chains.size(), -1);
  for (int host : rings.hosts) {
    int& example = examples[static_cast<size_t>(rings.chainsOf[static_cast<size_t>(host)])];
    if (example < 0) example = host;
  }
  return examples;
}

void print(const topology::Cluster& cluster, const topology::RailRings& rings) {
  std::printf(
      "rings on rails: %d channel%s of %.2f GB/s through %zu hosts, %.4g GB/s of each rank's data, %.1f %% of "
      "the "
      "bound\n",
      rings.channels(), rings.channels() > 1 ? "s" : "", rings.gigabytes, rings.hosts.size(), rings.perRank(),
      100 * rings.ofBound());
  const std::vector<int> examples = examplesOf(rings);
  for (size_t i = 0; i < examples.size(); ++i) {
    const topology::Host& type = cluster.typeOf(examples[i]);
    std::printf("  in %s%s\n", cluster.hosts[static_cast<size_t>(examples[i])].name.c_str(),
                rings.hosts.size() > examples.size() ? " and hosts like it" : "");
    for (size_t c = 0; c < rings.rails.size(); ++c) {
      std::printf("  rail %d:", rings.rails[c]);
      for (const std::string& name : namesOf(type, rings.chains[i][c])) std::printf(" %s", name.c_str());
      std::printf("\n");
    }
  }
}

Json asJson(const topology::Cluster& cluster, const topology::RailRings& rings) {
  Json hosts = Json::array(), chains = Json::array();
  for (int host : rings.hosts) hosts.push_back(cluster.hosts[static_cast<size_t>(host)].name);
  const std::vector<int> examples = examplesOf(rings);
  for (size_t i = 0; i < examples.size(); ++i) {
    Json& entry = chains.emplace_back(Json{{"hosts", Json::array()}, {"rings", Json::array()}});
    for (int host : rings.hosts) {
      if (rings.chainsOf[static_cast<size_t>(host)] == static_cast<int>(i))
        entry["hosts"].push_back(cluster.hosts[static_cast<size_t>(host)].name);
    }
    for (const topology::RailChain& chain : rings.chains[i])
      entry["rings"].push_back(namesOf(cluster.typeOf(examples[i]), chain));
  }
  return {{"channels", rings.channels()},     {"rails", rings.rails},       {"gigabytes", rings.gigabytes},
          {"gigabytesEach", rings.perRank()}, {"ofBound", rings.ofBound()}, {"hosts", std::move(hosts)},
          {"inHosts", std::move(chains)}};
}

}  // namespace

int search(const topology::Cluster& cluster, const Options& options) {
  const Result<topology::ClusterBound> bound = topology::boundOf(cluster);
  if (!bound.ok()) return unreadable(bound.status());
  const Result<topology::RailRings> rings = topology::searchRailRings(cluster);
  if (options.json) {
    Json json{{"bound",
               {{"gigabytesEach", bound->perRank()},
                {"exitGigabytes", bound->gigabytes},
                {"ranksInside", bound->ranks},
                {"inside", bound->inside}}}};
    json["rings"] = rings.ok() ? asJson(cluster, *rings) : Json{{"error", rings.status().message()}};
    std::printf("%s\n", json.dump(1).c_str());
    return kFine;
  }
  std::printf("AllGather: no schedule moves more than %.4g GB/s of each rank's data\n", bound->perRank());
  std::printf("  because %.2f GB/s lead out of %s, which holds %d rank%s\n", bound->gigabytes,
              bound->inside.c_str(), bound->ranks, bound->ranks > 1 ? "s" : "");
  if (rings.ok())
    print(cluster, *rings);
  else
    std::printf("rings on rails: %s\n", rings.status().message().c_str());
  return kFine;
}

}  // namespace eccl::topo
