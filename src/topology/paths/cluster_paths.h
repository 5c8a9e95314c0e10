// Paths between devices of different hosts of a cluster. paths.h has those inside a host.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topology/model/cluster.h"
#include "topology/paths/paths.h"
#include "topology/paths/switch_ways.h"

namespace eccl::topology {

/// The link that limits a path: the narrowest one, and the first of several.
struct Bottleneck {
  enum class Kind : uint8_t { none, inside, cable, trunk };
  Kind kind = Kind::none;
  int host = 0;  ///< of inside and cable
  /// inside: devices of the host's type, the ends of the link, or where it is not known which it is of the part
  /// of the way inside that host. cable: a, the port. trunk: a, index into Cluster::trunks.
  int a = 0, b = 0;
  bool operator==(const Bottleneck&) const = default;
};
/// For people: "node3: mlx5_0 and 0000:18:00.0", "node3: mlx5_0 to leaf0.0", "leaf0.0 and spine0.1".
std::string describe(const Cluster& cluster, const Bottleneck& bottleneck);

/// One path. `type` is net; pxn where one end goes by NVLink or xGMI to the accelerator that has the port;
/// dis where no port can be reached. Bandwidth, latency and links are those of one way.
struct ClusterPath {
  PathType type = PathType::dis;
  double gigabytes = 0;
  double microseconds = std::numeric_limits<double>::infinity();
  int switches = 0;  ///< that it passes; 0 where nothing is known of the network
  int fromPort = Device::kNone, toPort = Device::kNone;  ///< devices of the hosts' types
  Bottleneck bottleneck;
};

/// All paths of one cluster between hosts. The sender may use any of its ports. The receiver may use any port
/// that it has without another accelerator, or by one if it has no other.
///
/// Of all ways the widest is taken. Of equally wide ones it is the one with the fewest switches, so that
/// messages climb no tiers without need and take PXN to the receiver's rail; then one without another
/// accelerator; then the quickest. Sharing of links is not accounted for.
///
/// Owner: the caller, who must keep the cluster, a valid one, as long as this. Immutable: any thread, any
/// number at a time.
class ClusterPaths {
 public:
  /// Linear in host types, switches and links between them, whatever the number of hosts.
  explicit ClusterPaths(const Cluster& cluster);

  /// The paths from one device to some on other hosts, in their order. The cost is a search over all switches
  /// for each port of the sender, and the merging of the receivers: n log n. Nothing is kept for pairs.
  std::vector<ClusterPath> from(const RankPlace& from, std::span<const RankPlace> to) const;
  /// The path between two; as long a search as from().
  ClusterPath between(const RankPlace& from, const RankPlace& to) const {
    return this->from(from, {&to, 1}).front();
  }

 private:
  const Cluster& cluster_;
  std::vector<Paths> insides_;  // by type
  SwitchWays ways_;
};

}  // namespace eccl::topology
