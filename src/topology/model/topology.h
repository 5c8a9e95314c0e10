// The model of one host: the devices it is made of and the links between them. These are facts, as they were
// probed (probe.h) or read from a file (nccl_xml.h, host_json.h). link_model.h says what the facts mean for
// bandwidth and latency; paths.h finds the path between two devices.
//
// Owner and threads: all types here are values. They are copied freely, compared by content, and safe to read
// from any thread. A fact that is not known is unset, 0 or empty, as its comment says; nothing is guessed.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace eccl::topology {

/// What a device is. The names are nameOf()'s: "cpu", "bridge", "accelerator", and so on.
enum class DeviceKind : uint8_t {
  cpu,          ///< a NUMA node: some memory and the cores near it
  bridge,       ///< a PCI bridge or switch
  accelerator,  ///< a GPU or the like
  nic,          ///< a PCI network adapter; its ports are its children
  port,         ///< of a network adapter: "eth0", "mlx5_0"
  nvSwitch,
  other,  ///< a PCI device that carries no collective's data
};
/// A static string, for messages and files.
const char* nameOf(DeviceKind kind);

/// What is known of a NUMA node and of the CPU that it belongs to.
struct CpuFacts {
  std::vector<int> cores;    ///< the operating system's numbers, ascending; empty: unknown
  std::string arch, vendor;  ///< as NCCL writes them: "x86_64", "GenuineIntel"
  std::optional<int> family, model;
  std::optional<uint64_t> hostHash;  ///< NCCL's mark of the host, equal on all CPUs of one
  auto operator<=>(const CpuFacts&) const = default;
};

/// A PCI function, and the link from it up to its parent.
struct PciFacts {
  std::string busId;  ///< "0000:3b:00.0", lower case
  std::optional<uint32_t> classCode, vendor, device, subsystemVendor, subsystemDevice;
  double gigatransfers = 0,
         ablestGigatransfers = 0;  ///< per second and lane, as trained and at best; 0: unknown
  int width = 0, ablestWidth = 0;  ///< lanes; 0: unknown
  auto operator<=>(const PciFacts&) const = default;
};

/// What the driver of an accelerator says of it, or a topology file.
struct AcceleratorFacts {
  std::optional<int> index, rank;  ///< the driver's number of the device; the rank that uses it
  std::optional<int>
      computeCapability;       ///< NVIDIA: 90 for 9.0. AMD files put their number of compute units here
  std::string gcn;             ///< AMD: "906", "gfx942"; empty: another vendor's, or unknown
  std::optional<int> arch;     ///< AMD's flags
  std::optional<bool> direct;  ///< adapters can read and write its memory
  auto operator<=>(const AcceleratorFacts&) const = default;
};

/// What is known of a port of a network adapter. The link speed is that of the port, not of the adapter's PCI
/// link.
struct PortFacts {
  std::optional<int> index, number;  ///< NCCL's `dev`; the port on its adapter, from 1
  std::optional<int64_t> megabits;   ///< per second, as negotiated
  std::optional<int64_t> ablestMegabits;
  std::optional<uint64_t> guid;
  std::optional<double> latency;  ///< microseconds
  std::optional<int> maxConnections;
  std::optional<bool> direct;  ///< can read and write accelerators' memory
  std::string interface;       ///< the network interface on this port, "eth0"; empty: none, or not known
  std::string state;       ///< "up", "down", "init" (waits for its subnet manager), "unknown"; empty: not known
  std::string layer;       ///< "InfiniBand", "Ethernet"; empty: not known
  std::optional<int> mtu;  ///< bytes
  std::optional<int> rail, plane;  ///< of the cluster's network that it is wired to
  std::optional<bool> collective;  ///< the network behind it reduces
  auto operator<=>(const PortFacts&) const = default;
};

/// One device of a host. `parent` is the device that it hangs below. The facts of its kind are set, and only
/// those.
struct Device {
  DeviceKind kind = DeviceKind::other;
  /// Index into Host::devices, always smaller than the device's own; kNone below nothing. PCI functions and
  /// NVSwitches hang below CPUs and bridges, ports below adapters or, if their adapter is not on PCI, CPUs.
  int parent = kNone;
  /// Unique in its host whatever the case: "cpu<NUMA node>", a PCI bus id (or that and "#2", where bridges
  /// share one, as a hypervisor's may), a port's name, "nvswitch0".
  std::string name;
  std::optional<CpuFacts> cpu;                  ///< of a cpu
  std::optional<PciFacts> pci;                  ///< of a bridge, accelerator, nic, other; nvSwitch if known
  std::optional<AcceleratorFacts> accelerator;  ///< of an accelerator whose driver was asked
  std::optional<PortFacts> port;                ///< of a port
  static constexpr int kNone = -1;
  auto operator<=>(const Device&) const = default;
};

/// Whether a device is a port for RDMA, as far as the description of its host tells: those have GUIDs, of which
/// the upper half is the vendor's. (NCCL's files give other ports small numbers.)
inline bool isRdma(const Device& device) {
  return device.kind == DeviceKind::port && device.port->guid.value_or(0) >> 32 != 0;
}
/// What such a port has in place of its own GUID where it is one of many.
inline constexpr uint64_t kNobodysGuid = uint64_t{1} << 32;

/// The kinds of links that are not part of the tree.
enum class FabricKind : uint8_t {
  nvLink,
  c2c,  ///< NVIDIA's between a Grace CPU and its accelerators
  xgmi,
  pciSwitch,  ///< joins two PCI bridges that are parts of one switch
};
const char* nameOf(FabricKind kind);

/// A link beside the tree, in one direction; the way back is a link of its own. One end is an accelerator,
/// except that both ends of a pciSwitch link are bridges. Links with a CPU or an NVSwitch always go both
/// ways.
struct FabricLink {
  int from = Device::kNone, to = Device::kNone;  ///< indices into Host::devices
  FabricKind kind = FabricKind::nvLink;
  int count = 1;                    ///< of parallel links
  std::optional<double> bandwidth;  ///< GB/s of one of them, one way; unset: what the model says for the kind
  auto operator<=>(const FabricLink&) const = default;
};

/// One host: a forest of devices and the links beside it. Devices stand behind their parents, and CPUs come
/// first. A host is usable as a graph when validate() accepts it; all functions that say "a valid host" need
/// that.
struct Host {
  std::string name;  ///< empty in files that give none
  std::vector<Device> devices;
  std::vector<FabricLink> fabric;
  std::vector<std::string> unread;  ///< what could not be found out: "path: reason", for people
  auto operator<=>(const Host&) const = default;

  /// Index of the device of that name (bus ids in any case), or Device::kNone.
  int find(std::string_view deviceName) const;
  /// Indices of all devices of a kind, ascending.
  std::vector<int> all(DeviceKind kind) const;
  /// The CPU a device hangs below; itself for a CPU; kNone if there is none.
  int cpuOf(int device) const;
};

inline constexpr int kMaxCpus = 1024;    ///< NUMA nodes of one host: Linux's own limit (NODES_SHIFT = 10)
inline constexpr int kMaxCores = 65536;  ///< the numbers are below; Linux is built for 8192 at most
inline constexpr int kMaxDepth = 256;    ///< devices below one another: a PCI domain has 256 buses

/// The devices that take part in an AllGather on this host alone: its accelerators, or its CPUs if it has
/// none. Indices into Host::devices, ascending.
std::vector<int> participantsOf(const Host& host);

/// Makes every text in the host printable(), so that a terminal does not act on it. Needed for hosts whose
/// facts were read from files or devices.
void makePrintable(Host& host);

/// Checks that a host is usable as a graph: names are unique, CPUs come first and parents before children,
/// each kind has its facts, links join devices that exist, and numbers make sense (no bandwidth of zero or
/// less). n log n of the size of the host. An error (invalidArgument) names the device.
Status validate(const Host& host);

}  // namespace eccl::topology
