// The groups of checks. Internal to checks*.cc; each adds its findings.
#pragma once

#include <vector>

#include "topology/checks/checks.h"
#include "topology/probe/system_files.h"

namespace eccl::topology::checks {

/// PCI links below their ability or that of their like; NVLinks that are not there; accelerators that have no
/// adapter near while others do.
void checkPlacement(const Host& host, std::vector<Finding>* findings);
/// Ports that are down, slower than their like, or of another MTU.
void checkPorts(const Host& host, std::vector<Finding>* findings);
/// What keeps accelerators and adapters from reaching each other directly: ACS and IOMMU.
void checkPeerToPeer(const Host& host, const SystemFiles& files, std::vector<Finding>* findings);
/// Limits of this process: locked memory, shared memory, ptrace, affinity.
void checkProcess(const Host& host, const SystemFiles& files, const std::string& root,
                  std::vector<Finding>* findings);

/// Of an adapter, the fastest of its ports that is not down: Mbit/s, 0 if none tells.
int64_t speedOf(const Host& host, int nic);
/// Adapters that collectives would use: those at least half as fast as the fastest. What manages the machine
/// over 1 Gbit/s says nothing about where the others should be.
std::vector<int> dataAdapters(const Host& host);

}  // namespace eccl::topology::checks
