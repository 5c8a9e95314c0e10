// Rings on rails, and how near the bound they are.
#include <cstdio>

#include "cluster.h"
#include "tools/common/json.h"
#include "topology/search/rail_rings.h"

namespace eccl::topo {
namespace {

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

void writeJson(const topology::Cluster& cluster, const topology::RailRings& rings, tools::JsonWriter& json) {
  const auto nameOf = [&](int host) { return cluster.hosts[static_cast<size_t>(host)].name; };
  json.beginObject();
  json.key("channels").integer(rings.channels());
  json.key("rails").beginList();
  for (int rail : rings.rails) json.integer(rail);
  json.end();
  json.key("gigabytes").real(rings.gigabytes);
  json.key("gigabytesEach").real(rings.perRank());
  json.key("ofBound").real(rings.ofBound());
  json.key("hosts").beginList();
  for (int host : rings.hosts) json.string(nameOf(host));
  json.end();
  json.key("inHosts").beginList();
  const std::vector<int> examples = examplesOf(rings);
  for (size_t i = 0; i < examples.size(); ++i) {
    json.beginObject();
    json.key("hosts").beginList();
    for (int host : rings.hosts) {
      if (rings.chainsOf[static_cast<size_t>(host)] == static_cast<int>(i)) json.string(nameOf(host));
    }
    json.end();
    json.key("rings").beginList();
    for (const topology::RailChain& chain : rings.chains[i])
      json.strings(namesOf(cluster.typeOf(examples[i]), chain));
    json.end();
    json.end();
  }
  json.end();
  json.end();
}

}  // namespace

int search(const topology::Cluster& cluster, const Options& options) {
  const Result<topology::ClusterBound> bound = topology::boundOf(cluster);
  if (!bound.ok()) return unreadable(bound.status());
  const Result<topology::RailRings> rings = topology::searchRailRings(cluster);
  if (options.json) {
    tools::JsonWriter json(stdout);
    json.beginObject();
    json.key("bound").beginObject();
    json.key("gigabytesEach").real(bound->perRank());
    json.key("exitGigabytes").real(bound->gigabytes);
    json.key("ranksInside").integer(bound->ranks);
    json.key("inside").string(bound->inside);
    json.end();
    json.key("rings");
    if (rings.ok()) {
      writeJson(cluster, *rings, json);
    } else {
      json.beginObject();
      json.key("error").string(rings.status().message());
    }
    json.finish();
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
