// What a machine is made of, found out by asking it: NUMA nodes, the PCI tree and the state of its links,
// network interfaces and InfiniBand devices (the kernel's files), GPUs and NVLinks (NVML).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "topology/model/topology.h"

namespace eccl::topology {

namespace probe {
struct Inventory;
}

/// Where a host is read from. The default is the machine that this process runs on, by the kernel's files and
/// NVML.
struct ProbeSources {
  std::string root;  ///< in front of /sys and /proc: the folder of a captured machine
  /// Asked first for the NUMA nodes and the PCI tree of the machine below `root`: hwlocStructure() of
  /// probe_hwloc.h, which the library itself is not linked with. What it does not find is read from the
  /// kernel's files.
  std::function<Status(const std::string& root, probe::Inventory* found)> structure;
  /// NVML's file name. Unset: "libnvidia-ml.so.1" for the running machine, none for a captured one, whose GPUs
  /// this machine's driver knows nothing of. Empty: none.
  std::optional<std::string> nvml;
};

/// Never fails as a whole: what is missing or hidden is told in Host::unread, and the result passes validate().
/// Takes some milliseconds, but where GPUs sleep without nvidia-persistenced, as long as the driver needs to
/// wake them. Any thread.
Host probeHost(const ProbeSources& sources = {});

}  // namespace eccl::topology
