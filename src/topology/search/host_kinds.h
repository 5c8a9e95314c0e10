// Kinds of hosts: hosts that are alike to a search, wherever they are wired. They are of one type, with
// cables of the same bandwidth at the same ports, and ranks on the same devices. A search looks at one host
// of each kind.
#pragma once

#include <utility>
#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// One kind, by an example of it.
struct HostKind {
  int host = 0;                            ///< the first of the kind
  std::vector<std::pair<int, int>> users;  ///< devices that ranks use, ascending, and how many use each
  int ranks = 0;                           ///< on one host of it
};

/// All kinds of a cluster. Every host is of exactly one.
struct HostKinds {
  std::vector<HostKind> kinds;  ///< by their first host
  std::vector<int> kindOf;      ///< by host
  int ranks = 0;                ///< in the cluster
};

/// The kinds of a valid cluster's hosts. n log n. Pure.
HostKinds kindsOf(const Cluster& cluster);

}  // namespace eccl::topology
