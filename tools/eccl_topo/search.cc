// Trees and rings for collectives within the machine.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "topology/checks/checks.h"
#include "topology/search/forest.h"
#include "topology/search/graph_of_host.h"
#include "topology/search/rings.h"

namespace eccl::topo {
namespace {

using Json = nlohmann::ordered_json;

double gigabytes(double capacity) {
  return capacity / topology::kCapacityPerGigabyte;
}

std::vector<std::string> namesOf(const topology::Host& host, const std::vector<int>& devices) {
  std::vector<std::string> names;
  for (int device : devices) names.push_back(host.devices[static_cast<size_t>(device)].name);
  return names;
}

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : between) + name;
  return text;
}

/// The participants inside the cut that binds.
std::vector<std::string> insiders(const topology::Host& host, const topology::CapacityGraph& graph,
                                  const topology::CutBound& bound) {
  std::vector<int> inside;
  for (int terminal : graph.terminals) {
    if (bound.inside[static_cast<size_t>(terminal)]) inside.push_back(terminal);
  }
  return namesOf(host, inside);
}

Json asJson(const topology::Host& host, const topology::CapacityGraph& graph, const topology::Forest& forest,
            const Result<topology::Rings>& rings) {
  Json json{{"participants", namesOf(host, graph.terminals)},
            {"bound",
             {{"gigabytesEach", gigabytes(forest.bound.perTerminal())},
              {"exitGigabytes", gigabytes(static_cast<double>(forest.bound.capacity))},
              {"inside", insiders(host, graph, forest.bound)}}}};
  Json& trees = json["trees"];
  trees = {{"channels", forest.channels},
           {"gigabytesEach", gigabytes(forest.perTerminal())},
           {"ofBound", forest.ofBound()}};
  for (const topology::SpanningTree& tree : forest.trees) {
    Json branches = Json::array();
    for (const auto& branch : tree.branches) branches.push_back(namesOf(host, branch));
    trees["trees"].push_back(
        {{"root", host.devices[static_cast<size_t>(tree.root)].name}, {"branches", std::move(branches)}});
  }
  if (rings.ok()) {
    Json& found = json["rings"];
    found = {{"channels", rings->rings.size()},
             {"gigabytesEach", gigabytes(rings->perTerminal())},
             {"ofBound", rings->ofBound()}};
    for (const topology::Ring& ring : rings->rings) found["rings"].push_back(namesOf(host, ring.nodes));
  } else {
    json["rings"] = {{"error", rings.status().message()}};
  }
  return json;
}

}  // namespace

int search(const topology::Host& host, const Options& options) {
  const topology::CapacityGraph graph = topology::graphOf(host, topology::participantsOf(host));
  const Result<topology::Forest> forest = topology::searchForest(graph, options.channels);
  if (!forest.ok()) {
    std::fprintf(stderr, "eccl_topo: %s\n", forest.status().message().c_str());
    return kUnreadable;
  }
  const Result<topology::Rings> rings = topology::searchRings(graph, options.channels);
  const std::optional<topology::Finding> missing = topology::missingNvLinks(host, true);
  if (options.json) {
    Json json = asJson(host, graph, *forest, rings);
    if (missing) json["missing"] = missing->evidence;
    std::printf("%s\n", json.dump(1).c_str());
    return kFine;
  }
  if (missing) std::printf("%s\n  %s\n", missing->evidence.c_str(), missing->consequence.c_str());
  const double bound = gigabytes(forest->bound.perTerminal());
  std::printf("AllGather among %zu: no schedule moves more than %.2f GB/s of each one's data\n",
              graph.terminals.size(), bound);
  std::printf("  because %.2f GB/s lead out of these %d: %s\n",
              gigabytes(static_cast<double>(forest->bound.capacity)), forest->bound.terminals,
              joined(insiders(host, graph, forest->bound), " ").c_str());
  std::printf("trees: %d channel%s, %.2f GB/s each, %.1f %% of the bound\n", forest->channels,
              forest->channels > 1 ? "s" : "", gigabytes(forest->perTerminal()), 100 * forest->ofBound());
  if (!rings.ok()) {
    std::printf("rings: %s\n", rings.status().message().c_str());
    return kFine;
  }
  std::printf("rings: %zu channel%s, %.2f GB/s each, %.1f %% of the bound\n", rings->rings.size(),
              rings->rings.size() > 1 ? "s" : "", gigabytes(rings->perTerminal()), 100 * rings->ofBound());
  for (const topology::Ring& ring : rings->rings)
    std::printf("  %s\n", joined(namesOf(host, ring.nodes), " ").c_str());
  return kFine;
}

}  // namespace eccl::topo
