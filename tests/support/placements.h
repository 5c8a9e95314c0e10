// Placements that hierarchical algorithms are tried with.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "base/placement.h"

namespace eccl::test {

/// Rank r is on host hosts[r]; each host has a core for each rank, memory that its ranks share, and one port.
inline Placement onHosts(const std::vector<int>& hosts) {
  std::vector<RankLocation> locations;
  for (int host : hosts) {
    const std::string name = std::to_string(host);
    locations.emplace_back(name, name, name, static_cast<double>(hosts.size()));
  }
  return Placement(locations);
}

/// So many ranks next to each other and in turn on 2, 3, 5 and all hosts, all but one on one host, and thrown.
inline std::vector<Placement> placementsOf(int ranks) {
  std::vector<std::vector<int>> all;
  for (int hosts : {2, 3, 5, ranks}) {
    if (hosts > ranks || hosts < 2) continue;
    std::vector<int> next(static_cast<size_t>(ranks)), inTurn = next;
    for (int rank = 0; rank < ranks; ++rank) {
      next[static_cast<size_t>(rank)] = rank * hosts / ranks;
      inTurn[static_cast<size_t>(rank)] = rank % hosts;
    }
    all.push_back(next);
    all.push_back(inTurn);
  }
  if (ranks > 2) {
    std::vector<int> butOne(static_cast<size_t>(ranks), 0);
    butOne[static_cast<size_t>(ranks) / 2] = 1;
    all.push_back(butOne);
  }
  std::mt19937 random(static_cast<uint32_t>(ranks));
  for (int round = 0; round < 3; ++round) {
    std::vector<int> thrown(static_cast<size_t>(ranks));
    for (int& host : thrown) host = static_cast<int>(random() % 4);
    all.push_back(thrown);
  }
  std::vector<Placement> placements;
  for (const std::vector<int>& hosts : all) placements.push_back(onHosts(hosts));
  return placements;
}

}  // namespace eccl::test
