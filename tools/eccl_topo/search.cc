// Trees and rings for collectives within the machine.
#include <cstdio>

#include "commands.h"
#include "tools/common/json.h"
#include "topology/checks/checks.h"
#include "topology/search/forest.h"
#include "topology/search/graph_of_host.h"
#include "topology/search/rings.h"

namespace eccl::topo {
namespace {

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

void writeJson(const topology::Host& host, const topology::CapacityGraph& graph, const topology::Forest& forest,
               const Result<topology::Rings>& rings, tools::JsonWriter& json) {
  json.key("participants").strings(namesOf(host, graph.terminals));
  json.key("bound").beginObject();
  json.key("gigabytesEach").real(gigabytes(forest.bound.perTerminal()));
  json.key("exitGigabytes").real(gigabytes(static_cast<double>(forest.bound.capacity)));
  json.key("inside").strings(insiders(host, graph, forest.bound));
  json.end();
  json.key("trees").beginObject();
  json.key("channels").integer(forest.channels);
  json.key("gigabytesEach").real(gigabytes(forest.perTerminal()));
  json.key("ofBound").real(forest.ofBound());
  json.key("trees").beginList();
  for (const topology::SpanningTree& tree : forest.trees) {
    json.beginObject();
    json.key("root").string(host.devices[static_cast<size_t>(tree.root)].name);
    json.key("branches").beginList();
    for (const auto& branch : tree.branches) json.strings(namesOf(host, branch));
    json.end();
    json.end();
  }
  json.end();
  json.end();
  json.key("rings").beginObject();
  if (rings.ok()) {
    json.key("channels").integer(static_cast<int64_t>(rings->rings.size()));
    json.key("gigabytesEach").real(gigabytes(rings->perTerminal()));
    json.key("ofBound").real(rings->ofBound());
    json.key("rings").beginList();
    for (const topology::Ring& ring : rings->rings) json.strings(namesOf(host, ring.nodes));
    json.end();
  } else {
    json.key("error").string(rings.status().message());
  }
  json.end();
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
    tools::JsonWriter json(stdout);
    json.beginObject();
    writeJson(host, graph, *forest, rings, json);
    if (missing) json.key("missing").string(missing->evidence);
    json.finish();
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
