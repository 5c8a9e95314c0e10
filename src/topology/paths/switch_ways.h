// The ways between the switches of a cluster.
#pragma once

#include <limits>
#include <vector>

#include "topology/model/cluster.h"

namespace eccl::topology {

/// Of the ways that pass the fewest switches the widest, and of those the quickest that was found.
struct SwitchWay {
  int switches = 0;  ///< that it passes, both ends counted; 0: there is no way
  double gigabytes = std::numeric_limits<double>::infinity(), microseconds = 0;
  int narrowest = -1;  ///< index into Cluster::trunks; -1: of one switch
};

/// Immutable: any thread, any number at a time. Keeps no reference to the cluster.
class SwitchWays {
 public:
  explicit SwitchWays(const Cluster& cluster);
  /// To every switch. Linear: every link is looked at once from either end.
  std::vector<SwitchWay> from(int theSwitch) const;

 private:
  struct Edge {
    int to, trunk;
    double gigabytes, microseconds;
  };
  std::vector<std::vector<Edge>> edges_;  // by switch
};

}  // namespace eccl::topology
