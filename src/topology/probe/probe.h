// The probe: finds out what a machine is made of by asking it. The kernel's files tell of NUMA nodes, the PCI
// tree and the state of its links, network interfaces and InfiniBand devices; NVML tells of GPUs and NVLinks.
// docs/probing.md says what is in the result and what is left out.
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

/// The host. Never fails as a whole: Host::unread says what is missing or hidden, and the result passes
/// validate(). Takes some milliseconds; where GPUs sleep without nvidia-persistenced, as long as the driver
/// needs to wake them. Any thread.
Host probeHost(const ProbeSources& sources = {});

}  // namespace eccl::topology
