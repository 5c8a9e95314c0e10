// Checks of what the Host alone shows.
#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "topology/checks/checks_parts.h"

namespace eccl::topology::checks {
namespace {

/// How near the nearest adapter is.
enum class Nearness : uint8_t { host, node, pciSwitch };

const char* textOf(Nearness nearness) {
  switch (nearness) {
    case Nearness::host:
      return "only across NUMA nodes";
    case Nearness::node:
      return "on the same NUMA node";
    case Nearness::pciSwitch:
      return "below the same PCI switch";
  }
  return "";
}

bool shareSwitch(const Host& host, int a, int b) {
  for (int above = host.devices[a].parent; above != Device::kNone; above = host.devices[above].parent) {
    if (host.devices[above].kind != DeviceKind::bridge) continue;
    for (int other = host.devices[b].parent; other != Device::kNone; other = host.devices[other].parent) {
      if (other == above) return true;
    }
  }
  return false;
}

Nearness nearness(const Host& host, int accelerator, int nic) {
  if (shareSwitch(host, accelerator, nic)) return Nearness::pciSwitch;
  const int cpu = host.cpuOf(accelerator);
  return cpu != Device::kNone && cpu == host.cpuOf(nic) ? Nearness::node : Nearness::host;
}

/// What is known of the link's ability: what both ends can do, else how the links of the same model run.
struct Ability {
  double gigatransfers = 0;
  int width = 0;
  std::string whose = "both its ends";
};

Ability abilityOf(const Host& host, const Device& device) {
  const PciFacts& pci = *device.pci;
  Ability able{pci.ablestGigatransfers, pci.ablestWidth};
  if (able.gigatransfers > 0 || able.width > 0 || !pci.vendor || !pci.device) return able;
  for (const Device& other : host.devices) {
    if (!other.pci || other.kind != device.kind || other.pci->vendor != pci.vendor ||
        other.pci->device != pci.device)
      continue;
    if (other.pci->width > able.width || other.pci->gigatransfers > able.gigatransfers)
      able.whose = other.name + ", of the same model,";
    able.width = std::max(able.width, other.pci->width);
    able.gigatransfers = std::max(able.gigatransfers, other.pci->gigatransfers);
  }
  return able;
}

void checkLink(const Host& host, const Device& device, std::vector<Finding>* findings) {
  const PciFacts& pci = *device.pci;
  const Ability able = abilityOf(host, device);
  const bool slower = pci.gigatransfers > 0 && pci.gigatransfers < able.gigatransfers;
  const bool narrower = pci.width > 0 && pci.width < able.width;
  if (!slower && !narrower) return;
  Finding finding{Severity::warning, "pci-link", device.name};
  finding.evidence = format("PCI link of this %s runs at %g GT/s x%d; %s can do %g GT/s x%d",
                            nameOf(device.kind), pci.gigatransfers, pci.width, able.whose.c_str(),
                            std::max(able.gigatransfers, pci.gigatransfers), std::max(able.width, pci.width));
  finding.consequence = "All transfers of what is behind this link are slower by as much";
  if (!narrower && device.kind == DeviceKind::accelerator) {
    // GPUs train their links down when they have nothing to do, and up again when they have.
    finding.severity = Severity::note;
    finding.remedy =
        "Look again while the accelerator works: many slow their links down at rest. If it stays slow,"
        " reseat the card or cable and look for PCI errors in the kernel's log";
  } else {
    finding.remedy =
        "Reseat the card, riser or cable, look for PCI errors in the kernel's log, and at the slot's"
        " settings in the firmware";
  }
  findings->push_back(std::move(finding));
}

void checkDistances(const Host& host, std::vector<Finding>* findings) {
  struct Place {
    int accelerator, nic;
    Nearness near;
  };
  std::vector<Place> places;
  Nearness best = Nearness::host;
  for (int accelerator : host.all(DeviceKind::accelerator)) {
    // Where nobody knows what NUMA node it is on, distance is unknown too.
    if (host.cpuOf(accelerator) == Device::kNone && host.devices[accelerator].parent == Device::kNone) continue;
    Place place{accelerator, Device::kNone, Nearness::host};
    for (int nic : dataAdapters(host)) {
      const Nearness near = nearness(host, accelerator, nic);
      if (place.nic == Device::kNone || near > place.near) place = {accelerator, nic, near};
    }
    if (place.nic == Device::kNone) return;
    best = std::max(best, place.near);
    places.push_back(place);
  }
  for (const Place& place : places) {
    if (place.near == best) continue;
    findings->push_back(
        {Severity::warning, "nic-far", host.devices[place.accelerator].name,
         format("its nearest network adapter, %s, is %s; other accelerators of this host have one %s",
                host.devices[place.nic].name.c_str(), textOf(place.near), textOf(best)),
         "Its traffic to other hosts takes a longer way, and shares it with others",
         "If adapters can be moved to other slots, give each group of accelerators one; else expect"
         " less from this accelerator between hosts"});
  }
}

/// Ports of adapters of one model are meant to be alike.
using Model = std::tuple<uint32_t, uint32_t, std::string>;

Model modelOf(const Host& host, int port) {
  const Device& nic = host.devices[host.devices[port].parent];
  return {nic.pci ? nic.pci->vendor.value_or(0) : 0, nic.pci ? nic.pci->device.value_or(0) : 0,
          host.devices[port].port->layer};
}

Finding down(const Device& port, bool likeIsUp) {
  const bool waits = port.port->state == "init";
  // A port without InfiniBand verbs may just not be used, unless its like are.
  const bool meant = !likeIsUp && port.port->interface == port.name;
  Finding finding{meant ? Severity::note : Severity::warning, "port-down", port.name};
  finding.evidence = waits      ? "the port has a link, but no subnet manager has set it up"
                     : likeIsUp ? "the port is down; other ports of adapters of the same model are up"
                                : "the port is down";
  finding.consequence = "It carries nothing: what is near it uses another port, or none";
  finding.remedy = waits
                       ? "See that a subnet manager runs and reaches this port (sminfo, ibstat)"
                       : "Check cable, transceiver and the switch's port, or see that the interface is set up;"
                         " if it is meant to be unused, ignore this";
  return finding;
}

}  // namespace

int64_t speedOf(const Host& host, int nic) {
  int64_t speed = 0;
  for (int port : host.all(DeviceKind::port)) {
    const Device& device = host.devices[port];
    if (device.parent == nic && device.port->state != "down")
      speed = std::max(speed, device.port->megabits.value_or(0));
  }
  return speed;
}

std::vector<int> dataAdapters(const Host& host) {
  std::vector<int> nics = host.all(DeviceKind::nic);
  int64_t fastest = 0;
  for (int nic : nics) fastest = std::max(fastest, speedOf(host, nic));
  std::erase_if(nics, [&](int nic) { return speedOf(host, nic) * 2 < fastest; });
  return nics;
}

void checkPlacement(const Host& host, std::vector<Finding>* findings) {
  for (const Device& device : host.devices) {
    if (device.pci) checkLink(host, device, findings);
  }
  if (auto missing = missingNvLinks(host)) findings->push_back(std::move(*missing));
  checkDistances(host, findings);
}

void checkPorts(const Host& host, std::vector<Finding>* findings) {
  std::map<Model, std::vector<int>> up;
  for (int port : host.all(DeviceKind::port)) {
    const std::string& state = host.devices[port].port->state;
    // NCCL's files do not say of ports whether they are up; of adapters of an unknown model like is not to be
    // told.
    const bool mayBeUp = state.empty() && std::get<0>(modelOf(host, port)) != 0;
    if (state == "up" || mayBeUp) up[modelOf(host, port)].push_back(port);
  }
  for (int port : host.all(DeviceKind::port)) {
    const Device& device = host.devices[port];
    const auto like = up.find(modelOf(host, port));
    if (device.port->state == "down" || device.port->state == "init") {
      findings->push_back(down(device, like != up.end()));
      continue;
    }
    const int64_t speed = device.port->megabits.value_or(0);
    int64_t able = device.port->ablestMegabits.value_or(0);
    std::string by = "the port itself";
    for (int other : like == up.end() ? std::vector<int>() : like->second) {
      if (host.devices[other].port->megabits.value_or(0) <= able) continue;
      able = *host.devices[other].port->megabits;
      by = host.devices[other].name + ", of the same model,";
    }
    if (speed > 0 && speed < able)
      findings->push_back(
          {Severity::warning, "port-rate", device.name,
           format("the port runs at %g Gbit/s; %s can do %g", static_cast<double>(speed) / 1000, by.c_str(),
                  static_cast<double>(able) / 1000),
           "Collectives that use all ports alike go at the pace of the slowest",
           "Check cable and transceiver (a lane may be lost), and the speed that the switch's port is"
           " set to"});
  }
  for (const auto& [model, ports] : up) {
    std::map<int, std::vector<std::string>> byMtu;
    for (int port : ports) {
      if (host.devices[port].port->mtu) byMtu[*host.devices[port].port->mtu].push_back(host.devices[port].name);
    }
    if (byMtu.size() < 2) continue;
    const auto& [largest, large] = *byMtu.rbegin();
    for (const auto& [mtu, names] : byMtu) {
      if (mtu == largest) continue;
      for (const std::string& name : names)
        findings->push_back(
            {Severity::warning, "port-mtu", name,
             format("MTU %d; %s, of the same model, has %d", mtu, large[0].c_str(), largest),
             "Smaller packets cost more work for each byte, and ways between hosts whose ends differ"
             " may drop the larger ones",
             format("Set the same MTU on all ports of the data network and on its switches, such as:"
                    " ip link set dev %s mtu %d",
                    host.devices[host.find(name)].port->interface.c_str(), largest)});
    }
  }
}

}  // namespace eccl::topology::checks

namespace eccl::topology {

std::optional<Finding> missingNvLinks(const Host& host, bool alsoUnknown) {
  // Those that are made for NVLink, alone or by bridges between cards: P100, V100, A100, H100, B200, B300 and
  // their like.
  constexpr int kWithNvLink[] = {60, 70, 80, 90, 100, 103};
  const std::vector<int> accelerators = host.all(DeviceKind::accelerator);
  std::vector<int> without;
  size_t unknown = 0;
  for (int accelerator : accelerators) {
    const AcceleratorFacts facts = host.devices[accelerator].accelerator.value_or(AcceleratorFacts{});
    if (!facts.gcn.empty()) continue;  // AMD's
    const bool listed = std::any_of(host.fabric.begin(), host.fabric.end(), [&](const FabricLink& link) {
      return link.kind == FabricKind::nvLink && (link.from == accelerator || link.to == accelerator);
    });
    const int capability = facts.computeCapability.value_or(0);
    unknown += capability == 0;
    if (!listed && std::count(std::begin(kWithNvLink), std::end(kWithNvLink), capability) > 0)
      without.push_back(accelerator);
  }
  Finding finding{Severity::note, "nvlink-missing"};
  if (accelerators.size() < 2) return std::nullopt;
  if (!without.empty()) {
    const Device& first = host.devices[without[0]];
    const int capability = *first.accelerator->computeCapability;
    const std::string others = without.size() > 1 ? format(" and %zu more", without.size() - 1) : "";
    finding.device = first.name;
    finding.evidence = format(
        "no NVLinks are known of %s%s, and accelerators of compute capability %d.%d have them, but for cards "
        "without "
        "bridges",
        first.name.c_str(), others.c_str(), capability / 10, capability % 10);
  } else if (alsoUnknown && unknown > 0 && host.fabric.empty()) {
    finding.evidence = "no links between accelerators are known, nor what accelerators these are";
  } else {
    return std::nullopt;
  }
  finding.consequence =
      "Bandwidths and schedules that are found without them are those of PCI, and far too low if they are "
      "there";
  finding.remedy =
      "Files of clouds leave links out, as NCCL asks the driver for them: take what NCCL_TOPO_DUMP_FILE or "
      "eccl_topo "
      "dump writes on the machine. If that has none either, look at nvidia-smi nvlink --status";
  return finding;
}

}  // namespace eccl::topology
