#include "measured_paths.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "base/placement.h"
#include "base/status.h"
#include "runtime/api/handles.h"

namespace eccl::topo {
namespace {

using tools::Outcome;

/// Where there are 16 ways, one in eight is not seen.
constexpr size_t kPorts = 32;

std::string textOf(const std::vector<transport::FlowWay>& ways) {
  std::map<std::string, std::string> ports;
  for (const transport::FlowWay& way : ways) ports[transport::routersOf(way)] += format(" %u", way.port);
  std::string text;
  for (const auto& [hops, those] : ports) text += format("  by %s: ports%s\n", hops.c_str(), those.c_str());
  return text.empty() ? "  fewer than two routers on the way, or they do not say who they are\n" : text;
}

/// What all ranks say, in their order, on each.
Outcome gather(ecclComm_t world, int ranks, const std::string& mine, std::string* all) {
  const auto library = [&](ecclResult_t result) {
    return Outcome::library(result, world, "gathering the paths");
  };
  uint64_t longest = mine.size();
  TOOLS_TRY(library(ecclAllReduce(&longest, &longest, 1, ecclUint64, ecclMax, world, nullptr)));
  TOOLS_TRY(library(ecclCommSynchronize(world)));
  std::string part(mine), parts(longest * static_cast<size_t>(ranks), '\0');
  part.resize(longest);
  TOOLS_TRY(library(ecclAllGather(part.data(), parts.data(), longest, ecclChar, world, nullptr)));
  TOOLS_TRY(library(ecclCommSynchronize(world)));
  std::erase(parts, '\0');
  *all = parts;
  return {};
}

}  // namespace

Outcome printPaths(ecclComm_t world, int rank, int ranks, uint16_t datagramsTo) {
  std::string mine;
  {
    auto use = runtime::communicatorOf(world, "eccl_topo measure --paths");
    if (!use.ok()) return Outcome::error(tools::Exit::internal, "%s", use.status().message().c_str());
    const runtime::Communicator& communicator = *(*use)->communicator;
    const std::vector<int> hosts = communicator.placement().host;
    const auto isFirst = [&](int one) {
      const auto first = std::find(hosts.begin(), hosts.end(), hosts[static_cast<size_t>(one)]);
      return first - hosts.begin() == one;
    };
    for (int peer = 0; peer < ranks && isFirst(rank); ++peer) {
      if (peer == rank || !isFirst(peer)) continue;
      mine += format("%s to %s\n", communicator.describe(rank).c_str(), communicator.describe(peer).c_str());
      mine += textOf(communicator.traceFlows(peer, kPorts, datagramsTo));
    }
  }
  std::string all;
  TOOLS_TRY(gather(world, ranks, mine, &all));
  if (rank == 0) std::printf("%s", all.empty() ? "all ranks are on one host\n" : all.c_str());
  return {};
}

}  // namespace eccl::topo
