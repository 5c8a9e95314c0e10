// Every constant with its source. "NCCL" is version 2.28, whose constants are what its authors measured
// collectives to reach; "RCCL" is of October 2024 where nothing else is said.
#include "topology/model/link_model.h"

#include <algorithm>

namespace eccl::topology {
namespace {

/// What a link carries, and why we say so.
struct Rate {
  double gigabytes = 0;
  const char* source = "";
  bool assumed = false;
};

// PCI Express. Encoding: the base specification's 8b/10b up to 5 GT/s (4.2.1), 128b/130b up to 32 GT/s (4.2.2),
// and from 64 GT/s flits of 256 bytes, 236 of them for transaction layer packets (version 6.0, 4.2.3).
constexpr double kLastGigatransfers8b10b = 5, kLastGigatransfers128b130b = 32;
constexpr double kFlitEfficiency = 236.0 / 256;
// Packets: a write to a 64-bit address carries 16 bytes of header, and 8 of framing, sequence number and CRC
// unless it is in flits. R. Neugebauer et al., Understanding PCIe Performance for End Host Networking, SIGCOMM
// 2018, and its model, github.com/pcie-bench/pcie-model. 256 bytes is the usual largest payload of servers.
constexpr double kPayload = 256, kPacketHeader = 16, kPacketFrame = 8;
// Acknowledgements and flow control (8 bytes each per 203, x8 and 256-byte payloads) and skips (4 per 1538):
// the same paper, which so gets 57.88 Gb/s of 63.01 for 8 GT/s x8. Flits carry them in bytes counted above.
constexpr double kDataLinkEfficiency = 1 - 8.0 / 203 - 8.0 / 203 - 4.0 / 1538;
// NCCL takes an unknown speed for 8 GT/s and an unknown width for x16 (src/graph/topo.cc).
constexpr double kAssumedGigatransfers = 8;
constexpr int kAssumedWidth = 16;

// NVLink, GB/s a link, by compute capability: NCCL, src/graph/topo.h, SM*_NVLINK_BW; also that others count
// as 80.
constexpr Rate kNvLink[] = {{40.1, "NVLink 5: NCCL 2.28, SM100_NVLINK_BW"},
                            {20.6, "NVLink 4: NCCL 2.28, SM90_NVLINK_BW"},
                            {12.0, "NVLink of compute capability 8.6: NCCL 2.28, SM86_NVLINK_BW"},
                            {20.0, "NVLink 3: NCCL 2.28, SM80_NVLINK_BW"},
                            {20.0, "NVLink 2: NCCL 2.28, SM70_NVLINK_BW"},
                            {18.0, "NVLink 1: NCCL 2.28, SM60_NVLINK_BW"}};
constexpr Rate kAssumedNvLink = {20.0, "NVLink of an unknown device: assumed to be NVLink 3, as NCCL does",
                                 true};

// xGMI, GB/s a link: RCCL, src/graph/topo.h, *_XGMI_WIDTH; GFX95X of a later version of the same file.
constexpr Rate kXgmi300 = {48.0, "xGMI of gfx94x and gfx95x: RCCL, GFX94X_XGMI_WIDTH"};
constexpr Rate kXgmi200 = {36.0, "xGMI of gfx90a: RCCL, MI200_XGMI_WIDTH"};
constexpr Rate kXgmiVega = {24.0, "xGMI of gfx906 and gfx908: RCCL, VEGA_XGMI_WIDTH"};
constexpr Rate kAssumedXgmi = {24.0, "xGMI of an unknown device: assumed to be gfx906's, as RCCL does", true};

// Grace Hopper: 900 GB/s both ways together, NVIDIA Grace Hopper Superchip Architecture whitepaper, 2022.
constexpr Rate kAssumedC2c = {450.0, "C2C without a bandwidth: assumed to be all of a Grace Hopper's", true};

// Between CPUs: NCCL, src/graph/topo.h, *_QPI_BW, AMD_BW and so on, and src/graph/topo.cc for which is whose.
constexpr Rate kEmeraldRapids = {40.0, "Intel from Emerald Rapids: NCCL 2.28, ERP_QPI_BW"};
constexpr Rate kSapphireRapids = {22.0, "Intel from Sapphire Rapids: NCCL 2.28, SRP_QPI_BW"};
constexpr Rate kSkylake = {10.0, "Intel from Skylake: NCCL 2.28, SKL_QPI_BW"};
constexpr Rate kBroadwell = {6.0, "Intel up to Broadwell: NCCL 2.28, BDW_QPI_BW"};
constexpr Rate kAmdCpu = {16.0, "AMD: NCCL 2.28, AMD_BW"};
constexpr Rate kYongFeng = {9.0, "Zhaoxin YongFeng: NCCL 2.28, YONGFENG_ZPI_BW"};
constexpr Rate kZhaoxin = {6.0, "Zhaoxin: NCCL 2.28, ZPI_BW"};
constexpr Rate kArm = {6.0, "Arm: NCCL 2.28, ARM_BW"};
constexpr Rate kPower = {32.0, "POWER: NCCL 2.28, P9_BW"};
constexpr Rate kAssumedCpu = {6.0, "unknown CPUs: assumed to be as slow as the slowest that NCCL knows", true};

// NCCL counts joined bridges as one place (src/graph/topo.cc, LINK_LOC with LOC_BW).
constexpr Rate kInsideSwitch = {5000.0, "inside a PCI switch: NCCL 2.28, LOC_BW"};

// NCCL takes a port of unknown speed for one of 10 Gbit/s (src/graph/topo.cc).
constexpr double kAssumedMegabits = 10000, kMegabitsPerGigabyte = 8000;

// Latency. NCCL's tuning table (src/graph/tuning.cc, hwLatencies, ring and protocol LL) has 0.6 between
// accelerators with NVLink, 1.0 over PCI and 2.7 over the network, software included. A way over PCI has at
// least two links, one over the network has a port at either end, and one through an NVSwitch two links.
constexpr double kNvLinkMicroseconds = 0.6, kPciMicroseconds = 1.0 / 2, kNetworkMicroseconds = 2.7 / 2;
// Assumed: C2C and xGMI as NVLink; 0.1 between CPUs, as loads from another socket's memory take 50 to 125 ns
// longer than from the own (Intel Memory Latency Checker, as reported for two-socket servers); nothing inside a
// switch.
constexpr double kFabricMicroseconds = kNvLinkMicroseconds, kInterCpuMicroseconds = 0.1,
                 kInsideSwitchMicroseconds = 0;

Rate rateOfPci(const Host& host, const Device& device) {
  static constexpr const char* kSource =
      "PCI Express: line rate less encoding and the packets of 256-byte payloads";
  static constexpr const char* kIdle =
      "PCI Express as trained, which may be slower than it gets: the other end's best is unknown";
  static constexpr const char* kUnknown =
      "PCI Express of unknown speed or width: assumed 8 GT/s, x16, as NCCL does";
  const PciFacts& pci = *device.pci;
  const PciFacts* above = device.parent == Device::kNone || !host.devices[device.parent].pci
                              ? nullptr
                              : &*host.devices[device.parent].pci;
  // Idle links train down, and up again when they are used; lanes that are not there do not come back.
  double speed = pci.gigatransfers > 0 ? pci.gigatransfers : pci.ablestGigatransfers;
  bool assumed = speed == 0 || (pci.gigatransfers > 0 && pci.gigatransfers < pci.ablestGigatransfers);
  if (pci.ablestGigatransfers > 0 && above != nullptr && above->ablestGigatransfers > 0) {
    speed = std::max(pci.gigatransfers, std::min(pci.ablestGigatransfers, above->ablestGigatransfers));
    assumed = false;
  }
  const int width = pci.width > 0 ? pci.width : pci.ablestWidth;
  const bool unknown = speed == 0 || width == 0;
  return {pciGigabytes(speed > 0 ? speed : kAssumedGigatransfers, width > 0 ? width : kAssumedWidth),
          unknown   ? kUnknown
          : assumed ? kIdle
                    : kSource,
          unknown || assumed};
}

Rate rateOfPort(const PortFacts& port) {
  const bool known = port.megabits.value_or(0) > 0;
  const double megabits = known ? static_cast<double>(*port.megabits) : kAssumedMegabits;
  return {megabits / kMegabitsPerGigabyte,
          known ? "the port's line rate" : "a port of unknown speed: assumed 10 Gbit/s, as NCCL does", !known};
}

Rate rateOfCpu(const CpuFacts& cpu) {
  if (cpu.arch == "ppc64") return kPower;
  if (cpu.arch == "arm64") return kArm;
  if (cpu.arch != "x86_64") return kAssumedCpu;
  if (cpu.vendor == "AuthenticAMD") return kAmdCpu;
  if (!cpu.family || !cpu.model) return kAssumedCpu;
  if (cpu.vendor == "CentaurHauls" || cpu.vendor == "  Shanghai  ")
    return *cpu.family == 7 && *cpu.model == 0x5b ? kYongFeng : kZhaoxin;
  if (cpu.vendor != "GenuineIntel" || *cpu.family != 6) return kAssumedCpu;
  return *cpu.model >= 0xcf   ? kEmeraldRapids
         : *cpu.model >= 0x8f ? kSapphireRapids
         : *cpu.model >= 0x55 ? kSkylake
                              : kBroadwell;
}

Rate rateOfNvLink(const Device& accelerator) {
  if (!accelerator.accelerator || !accelerator.accelerator->gcn.empty()) return kAssumedNvLink;
  const int capability = accelerator.accelerator->computeCapability.value_or(0);
  if (capability >= 100) return kNvLink[0];
  if (capability >= 90) return kNvLink[1];
  if (capability == 86) return kNvLink[2];
  if (capability >= 80) return kNvLink[3];
  if (capability >= 70) return kNvLink[4];
  return capability >= 60 ? kNvLink[5] : kAssumedNvLink;
}

Rate rateOfXgmi(const Device& accelerator) {
  std::string_view gcn = accelerator.accelerator ? std::string_view(accelerator.accelerator->gcn) : "";
  if (gcn.substr(0, 3) == "gfx") gcn.remove_prefix(3);
  gcn = gcn.substr(0, 3);  // "942" of "gfx942:sramecc+:xnack-"
  if (gcn.substr(0, 2) == "94" || gcn.substr(0, 2) == "95") return kXgmi300;
  if (gcn == "90a" || gcn == "910") return kXgmi200;  // older files call gfx90a 910
  return gcn == "906" || gcn == "908" ? kXgmiVega : kAssumedXgmi;
}

/// Of one link, by the device at one end of it.
Rate rateOfFabric(FabricKind kind, const Device& end) {
  switch (kind) {
    case FabricKind::nvLink:
      return rateOfNvLink(end);
    case FabricKind::xgmi:
      return rateOfXgmi(end);
    case FabricKind::c2c:
      return kAssumedC2c;
    case FabricKind::pciSwitch:
      return kInsideSwitch;
  }
  return {};
}

Link linkOfFabric(const Host& host, const FabricLink& fabric) {
  const Device &from = host.devices[fabric.from], &to = host.devices[fabric.to];
  Rate rate;
  if (fabric.bandwidth) {
    rate = {*fabric.bandwidth, "the host's own figure"};
  } else if (from.kind == DeviceKind::accelerator && to.kind == DeviceKind::accelerator) {
    const Rate one = rateOfFabric(fabric.kind, from), other = rateOfFabric(fabric.kind, to);
    rate = other.gigabytes < one.gigabytes ? other : one;  // links run as fast as the slower end
  } else {
    rate = rateOfFabric(fabric.kind, from.kind == DeviceKind::accelerator ? from : to);
  }
  // The C2C of the whitepaper is that of all links of a device.
  const int count = fabric.kind == FabricKind::c2c && !fabric.bandwidth ? 1 : fabric.count;
  const bool toSwitch = from.kind == DeviceKind::nvSwitch || to.kind == DeviceKind::nvSwitch;
  const bool joined = fabric.kind == FabricKind::pciSwitch;
  const double microseconds = joined     ? kInsideSwitchMicroseconds
                              : toSwitch ? kNvLinkMicroseconds / 2
                                         : kFabricMicroseconds;
  static constexpr LinkKind kKinds[] = {LinkKind::nvLink, LinkKind::c2c, LinkKind::xgmi, LinkKind::pciSwitch};
  return {
      fabric.from, fabric.to,   kKinds[static_cast<size_t>(fabric.kind)], rate.gigabytes * count, microseconds,
      rate.source, rate.assumed};
}

void addBothWays(std::vector<Link>& links, Link link) {
  links.push_back(link);
  std::swap(link.a, link.b);
  links.push_back(link);
}

/// From a device to its parent.
Link linkUp(const Host& host, int index) {
  const Device& device = host.devices[index];
  if (device.kind == DeviceKind::port) {
    const Rate rate = rateOfPort(*device.port);
    const bool told = device.port->latency.value_or(0) > 0;  // NCCL writes 0 where it does not know
    return {index,
            device.parent,
            LinkKind::network,
            rate.gigabytes,
            told ? *device.port->latency : kNetworkMicroseconds,
            rate.source,
            rate.assumed};
  }
  const Rate rate = rateOfPci(host, device);
  return {index, device.parent, LinkKind::pci, rate.gigabytes, kPciMicroseconds, rate.source, rate.assumed};
}

}  // namespace

const char* nameOf(LinkKind kind) {
  switch (kind) {
    case LinkKind::pci:
      return "PCI";
    case LinkKind::network:
      return "network";
    case LinkKind::interCpu:
      return "CPU to CPU";
    case LinkKind::nvLink:
      return nameOf(FabricKind::nvLink);
    case LinkKind::c2c:
      return nameOf(FabricKind::c2c);
    case LinkKind::xgmi:
      return nameOf(FabricKind::xgmi);
    case LinkKind::pciSwitch:
      return nameOf(FabricKind::pciSwitch);
  }
  return "unknown";
}

double pciGigabytes(double gigatransfers, int width) {
  const bool flits = gigatransfers > kLastGigatransfers128b130b;
  const double encoding = flits                                     ? kFlitEfficiency
                          : gigatransfers > kLastGigatransfers8b10b ? 128.0 / 130 * kDataLinkEfficiency
                                                                    : 8.0 / 10 * kDataLinkEfficiency;
  const double packets = kPayload / (kPayload + kPacketHeader + (flits ? 0 : kPacketFrame));
  return gigatransfers * width / 8 * encoding * packets;
}

std::vector<Link> linksOf(const Host& host) {
  std::vector<Link> links;
  const int devices = static_cast<int>(host.devices.size());
  for (int i = 0; i < devices; ++i) {
    if (host.devices[i].parent != Device::kNone) addBothWays(links, linkUp(host, i));
  }
  for (int a = 0; a < devices && host.devices[a].kind == DeviceKind::cpu; ++a) {
    const Rate rate = rateOfCpu(*host.devices[a].cpu);
    for (int b = 0; b < devices && host.devices[b].kind == DeviceKind::cpu; ++b) {
      if (a != b)
        links.push_back(
            {a, b, LinkKind::interCpu, rate.gigabytes, kInterCpuMicroseconds, rate.source, rate.assumed});
    }
  }
  for (const FabricLink& fabric : host.fabric) links.push_back(linkOfFabric(host, fabric));
  return links;
}

}  // namespace eccl::topology
