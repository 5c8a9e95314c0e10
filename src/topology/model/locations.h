// Where ranks are, as the topology knows it: base/placement.h's model made from hosts and clusters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/placement.h"
#include "topology/model/cluster.h"

namespace eccl::topology {

/// The ports of a valid host that are not down, as indices of devices: those first that are nearest to `device`
/// in the tree, then in their order.
std::vector<int> portsNear(const Host& host, int device);

/// Of some of these the first, and those that are as near.
std::vector<int> nearestOf(std::vector<int> ports, const Host& host, int device);

/// The device of the port that has this network interface or name; Device::kNone if there is none.
int portOfInterface(const Host& host, std::string_view interface);
/// The fastest port that is not down, the first of several; Device::kNone if there is none.
int fastestPort(const Host& host);

/// Ports of a host as placements know them: named "HOST/PORT", their speed and latency those of link_model.h,
/// unless that only assumes them.
std::vector<NetworkPort> networkPorts(const Host& host, std::span<const int> ports, std::string_view hostName);

/// The number of the NUMA node that a device hangs below, -1 if that is not known.
int numaNodeOf(const Host& host, int device);

/// Of the ranks of a valid cluster. Each host is a machine with all cores that its CPUs list, as many as ranks
/// where they list none; its ranks share memory. All of them use its fastest port first, as connections by TCP
/// go through one interface; by RDMA, if that is a port for it. A host without ports is taken to have one of
/// unknown speed.
std::vector<RankLocation> locationsOf(const Cluster& cluster);

}  // namespace eccl::topology
