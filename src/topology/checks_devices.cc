// Checks of what the Host alone shows.
#include <algorithm>
#include <map>
#include <tuple>

#include "topology/checks_parts.h"

namespace eccl::checks {
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

void checkLink(const Device& device, std::vector<Finding>* findings) {
  const PciFacts& pci = *device.pci;
  const bool slower = pci.gigatransfers > 0 && pci.gigatransfers < pci.ablestGigatransfers;
  const bool narrower = pci.width > 0 && pci.width < pci.ablestWidth;
  if (!slower && !narrower) return;
  Finding finding{Severity::warning, "pci-link", device.name};
  finding.evidence =
      format("PCI link of this %s runs at %g GT/s x%d; both its ends can do %g GT/s x%d", nameOf(device.kind),
             pci.gigatransfers, pci.width, std::max(pci.ablestGigatransfers, pci.gigatransfers),
             std::max(pci.ablestWidth, pci.width));
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
    if (device.pci) checkLink(device, findings);
  }
  checkDistances(host, findings);
}

void checkPorts(const Host& host, std::vector<Finding>* findings) {
  std::map<Model, std::vector<int>> up;
  for (int port : host.all(DeviceKind::port)) {
    if (host.devices[port].port->state == "up") up[modelOf(host, port)].push_back(port);
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

}  // namespace eccl::checks
