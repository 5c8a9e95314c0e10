// What a machine is made of, found out by asking it: NUMA nodes and the PCI tree (hwloc, or the kernel's
// files), the state of PCI links, network interfaces and InfiniBand devices (the kernel's files), GPUs and
// NVLinks (NVML).
#pragma once

#include <optional>
#include <string>

#include "topology/topology.h"

namespace eccl {

/// Where a host is read from. The default is the machine that this process runs on.
struct ProbeSources {
  std::string root;  ///< in front of /sys and /proc: the folder of a captured machine
  /// Ask hwloc for the NUMA nodes and the PCI tree, where this library was built with it.
  bool hwloc = true;
  /// A file that hwloc exported ("lstopo machine.xml"): it is all that is read then. Needs hwloc.
  std::string hwlocXml;
  /// NVML's file name. Unset: "libnvidia-ml.so.1" for the running machine, none for a captured one, whose GPUs
  /// this machine's driver knows nothing of. Empty: none.
  std::optional<std::string> nvml;
};

/// Never fails as a whole: what is missing or hidden is told in Host::unread, and the result passes validate().
/// Takes some milliseconds, but where GPUs sleep without nvidia-persistenced, as long as the driver needs to
/// wake them.
///
/// Any thread. hwloc takes some of its orders from the environment only: while it looks, `environ` is a copy
/// with two or three variables more (all HWLOC_*), so that getenv() of other threads goes on as ever; a
/// setenv() of another thread in these milliseconds would be forgotten. `hwloc = false` leaves the environment
/// alone.
Host probeHost(const ProbeSources& sources = {});

/// Whether this library was built with hwloc.
bool haveHwloc();

}  // namespace eccl
