// Ways between the switches of a cluster.
#pragma once

#include <limits>
#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// A way between two switches: of those that pass the fewest switches the widest, and of these the quickest
/// that was found. GB/s and microseconds, one way.
struct SwitchWay {
  int switches = 0;  ///< that it passes, both ends counted; 0: there is no way
  double gigabytes = std::numeric_limits<double>::infinity(), microseconds = 0;
  int narrowest = -1;  ///< index into Cluster::trunks; -1: of one switch
};

/// Finds ways between the switches of one cluster. Immutable: any thread, any number at a time. Keeps no
/// reference to the cluster.
class SwitchWays {
 public:
  explicit SwitchWays(const Cluster& cluster);
  /// The ways to every switch, by its index. Linear: every link is visited once from either end.
  std::vector<SwitchWay> from(int theSwitch) const;

 private:
  struct Edge {
    int to, trunk;
    double gigabytes, microseconds;
  };
  std::vector<std::vector<Edge>> edges_;  // by switch
};

}  // namespace eccl::topology
