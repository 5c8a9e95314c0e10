// The model of a cluster: its hosts, merged where they are alike, and the network between them. These are
// facts, as they were probed, generated (clos.h) or read from a file (cluster_json.h). cluster_paths.h says
// what they mean for messages.
//
// Owner and threads: all types here are values, safe to read from any thread. Units: bandwidth is in GB/s
// (10^9 bytes) one way, latency in microseconds one way. Every link carries as much both ways.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "topology/model/topology.h"

namespace eccl::topology {

/// A cable from a port of a host to a switch.
struct Uplink {
  int port = Device::kNone;  ///< index into the devices of the host's type: a port, or an adapter without ports
  int toSwitch = 0;          ///< index into Cluster::switches
  double gigabytes = 0;      ///< of the cable; the port may be slower
  double microseconds = 0;   ///< of the cable and half of the switch
  auto operator<=>(const Uplink&) const = default;
};

/// One host of a cluster: which kind of host it is, and where its ports are wired.
struct ClusterHost {
  std::string name;             ///< unique in the cluster, not empty
  int type = 0;                 ///< index into Cluster::types
  std::vector<Uplink> uplinks;  ///< ascending by port, each port once
  bool operator==(const ClusterHost&) const = default;
};

/// A switch of the network. Tiers count from the hosts: tier 1 are leaves.
struct Switch {
  std::string name;  ///< unique among switches, not empty
  int tier = 1;      ///< 1: leaf
  int ports = 0;     ///< that it has; 0: unknown
  std::optional<int> pod, rail, plane;
  bool operator==(const Switch&) const = default;
};

/// Parallel cables between two switches.
struct Trunk {
  int a = 0, b = 0;         ///< indices into Cluster::switches
  int count = 1;            ///< of cables
  double gigabytes = 0;     ///< of one of them
  double microseconds = 0;  ///< of a cable and half of each switch
  bool operator==(const Trunk&) const = default;
};

/// Where a rank runs: on which host, and on which of its devices.
struct RankPlace {
  int host = 0;                ///< index into Cluster::hosts
  int device = Device::kNone;  ///< of its type: an accelerator or a CPU
  bool operator==(const RankPlace&) const = default;
};

/// Hosts, switches and the cables between them. Without switches nothing is known of the network: every port
/// is then taken to reach every other at its own speed. All functions that say "a valid cluster" need
/// validate() to accept it.
struct Cluster {
  std::string name;
  std::vector<Host> types;  ///< distinct, with unique names
  std::vector<ClusterHost> hosts;
  std::vector<Switch> switches;
  std::vector<Trunk> trunks;
  std::vector<RankPlace> ranks;  ///< empty: not known yet
  bool operator==(const Cluster&) const = default;

  const Host& typeOf(int host) const {
    return types[static_cast<size_t>(hosts[static_cast<size_t>(host)].type)];
  }
};

/// The limits that validate() enforces. They bound the memory that a file from outside can cost.
inline constexpr int kMaxHosts = 1 << 17, kMaxSwitches = 1 << 17, kMaxTrunks = 1 << 20, kMaxUplinks = 1 << 21,
                     kMaxRanks = 1 << 21;
inline constexpr int kMaxTier = 16;

/// Removes what is the host's own and makes no difference to a collective: names, NCCL's host hash and ranks,
/// GUIDs (of which kNobodysGuid stays for RDMA), and what was left unread. Bus ids stay. Ranks that exchange
/// hosts send this, so that equal hosts are equal bytes.
Host withoutIdentity(Host host);

/// Hosts merged by content: each distinct one once.
struct MergedHosts {
  std::vector<Host> types;  ///< withoutIdentity(), in the order of their first host and under its name
  std::vector<int> typeOf;  ///< index into `types`, by host
};
/// Merges hosts that are equal apart from their identity. Each host's name may be empty, and several may
/// share one. n log n comparisons of hosts. Pure.
MergedHosts mergeHosts(std::span<const Host> hosts);

/// Checks that a cluster is usable: types are valid, indices exist, names are unique, each port is wired
/// once, switches are within their number of ports, links have bandwidth, and numbers are within the limits
/// above. If there are switches, all hosts and switches must be connected (through hosts as well, as rails
/// may meet nowhere else). n log n. An error (invalidArgument) names the host, switch or link.
Status validate(const Cluster& cluster);

/// One rank for every accelerator, or for every CPU on hosts without accelerators; host by host. A collective
/// of the whole cluster is among these where no ranks are given.
std::vector<RankPlace> allPlaces(const Cluster& cluster);

}  // namespace eccl::topology
