// What the parts of a probe find, before it is decided what of it makes a Host. Internal to probe*.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "topology/model/topology.h"
#include "topology/probe/system_files.h"

namespace eccl::topology::probe {

/// A NUMA node of the machine.
struct NumaNode {
  int number = 0;
  std::vector<int> cpus;  // none: memory only
};

/// A PCI function of any kind, bridges included.
struct PciFunction {
  std::string above;        // the bridge it is directly below, by bus id; empty: on a root bus
  std::optional<int> node;  // the NUMA node it is on; unset: not said
  bool isVirtual = false;   // of an adapter (SR-IOV) whose physical function is here as well
  PciFacts facts;           // ablest: of this end of the link alone
};

/// A port of a network adapter, by either of its names.
struct Port {
  std::string busId;  // of the PCI function it belongs to
  std::string name;
  PortFacts facts;
};

/// Everything that was found. Owner: one probe.
struct Inventory {
  std::string hostName;
  CpuFacts cpu;  // what holds for every node; no cores
  std::vector<NumaNode> nodes;
  std::vector<PciFunction> functions;
  std::vector<Port> ports;
  std::vector<std::string> unread;
};

/// "0000:3b:00.0"; domains of more than 16 bits exist.
bool isBusId(const std::string& text);
/// The bus ids in a path of sysfs, from the root bus down.
std::vector<std::string> busIdsIn(const std::string& path);
/// "a, b, c"
std::string joined(const std::vector<std::string>& names);
/// Linux adds the extended family of a CPU to the base family where that is 15. Topology files have it as NCCL
/// reads it from the CPU, shifted by four bits: Zen 2 is 23 here and 143 there.
int ncclFamily(int64_t linuxFamily);

/// Nodes and functions without facts, as the kernel's files show them. This and the functions that follow add
/// to `found`, and note in its `unread` what could not be read.
void readNumaNodes(const SystemFiles& files, Inventory* found);
void readPciTree(const SystemFiles& files, Inventory* found);
/// The facts of each function that is known.
void readPciFacts(const SystemFiles& files, Inventory* found);
/// Host name and CPU model.
void readCpuModel(const SystemFiles& files, Inventory* found);
/// Network interfaces and InfiniBand devices, one Port for each port there is.
void readPorts(const SystemFiles& files, Inventory* found);

/// The Host of what was found. docs/probing.md says what is left out.
Host assemble(Inventory found);

/// Asks the NVML library of that name, and adds to the host what it says of accelerators and NVLinks.
void addNvml(const std::string& library, Host* host);

}  // namespace eccl::topology::probe
