// The ports of network adapters: network interfaces and InfiniBand devices. One physical port often is both; it
// becomes one Port, named after the InfiniBand device, that names its interface. Two would promise its
// bandwidth twice.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "topology/probe/probe_parts.h"

namespace eccl::topology::probe {
namespace {

struct Interface {
  std::string name, busId;
  int64_t devPort = 0;  // which port of its PCI function, from 0
  bool uplink = true;   // not the stand-in for a virtual function's port (a "representor")
  PortFacts facts;
};

/// The port of the adapter itself is named "p0" or not at all; "pf0vf1" and the like stand for others.
bool isUplink(const std::string& portName) {
  return portName.empty() || (portName.size() > 1 && portName[0] == 'p' &&
                              std::all_of(portName.begin() + 1, portName.end(),
                                          [](unsigned char c) { return std::isdigit(c) != 0; }));
}

Interface interfaceAt(const SystemFiles& files, const std::string& name, const std::string& busId) {
  const std::string at = "/sys/class/net/" + name + "/";
  Interface found{name, busId};
  // InfiniBand interfaces of old kernels number their ports in dev_id only.
  const std::optional<int64_t> port = files.number(at + "dev_port");
  found.devPort = port && *port > 0 ? *port : files.number(at + "dev_id").value_or(0);
  found.uplink = isUplink(files.text(at + "phys_port_name"));
  found.facts.interface = name;
  // Reading fails where there is no link, and virtual devices say -1.
  const std::optional<int64_t> speed = files.number(at + "speed");
  if (speed && *speed > 0) found.facts.megabits = *speed;
  if (const auto mtu = files.number(at + "mtu")) found.facts.mtu = static_cast<int>(*mtu);
  found.facts.state = files.text(at + "operstate");
  if (found.facts.state != "up" && found.facts.state != "down" && !found.facts.state.empty())
    found.facts.state = found.facts.state == "lowerlayerdown" ? "down" : "unknown";
  constexpr int64_t kEthernet = 1, kInfiniBand = 32;  // ARPHRD_* of <net/if_arp.h>
  const std::optional<int64_t> type = files.number(at + "type");
  if (type == kEthernet) found.facts.layer = "Ethernet";
  if (type == kInfiniBand) found.facts.layer = "InfiniBand";
  return found;
}

std::vector<Interface> readInterfaces(const SystemFiles& files, Inventory* found) {
  const std::string folder = "/sys/class/net";
  std::vector<Interface> interfaces;
  std::vector<std::string> elsewhere;
  std::string error;
  for (const std::string& name : entriesOf(files.path(folder), "", &error)) {
    if (name == "lo" || name == "bonding_masters") continue;  // the latter is a file of the bonding driver
    const std::vector<std::string> way = busIdsIn(files.resolved(folder + "/" + name + "/device"));
    if (way.empty()) {
      elsewhere.push_back(name);
    } else {
      interfaces.push_back(interfaceAt(files, name, way.back()));
    }
  }
  if (!error.empty()) found->unread.push_back(folder + ": " + error);
  if (!elsewhere.empty())
    found->unread.push_back(folder +
                            ": left out, as there is no PCI device behind them (bridges, tunnels, the inner"
                            " side of a container's network): " +
                            joined(elsewhere));
  // The one that stands for the port first: uplinks, then the shorter name ("ib0" before "ib0.8001").
  std::sort(interfaces.begin(), interfaces.end(), [](const Interface& a, const Interface& b) {
    const auto key = [](const Interface& i) { return std::tuple(!i.uplink, i.name.size(), i.name); };
    return key(a) < key(b);
  });
  return interfaces;
}

/// "4: ACTIVE". A port that is INIT or ARMED has a link, but no addresses from a subnet manager yet.
std::string stateIn(const std::string& text) {
  switch (text.empty() ? 0 : text[0]) {
    case 0:
      return "";
    case '1':
      return "down";
    case '2':
    case '3':
      return "init";
    case '4':
      return "up";
    default:
      return "unknown";
  }
}

/// "200 Gb/sec (4X HDR)", "2.5 Gb/sec (1X SDR)".
std::optional<int64_t> megabitsIn(const std::string& rate) {
  double gigabits = 0;
  if (std::sscanf(rate.c_str(), "%lf Gb/sec", &gigabits) != 1 || gigabits <= 0) return std::nullopt;
  return static_cast<int64_t>(gigabits * 1000 + 0.5);
}

/// "0002:c903:0005:0a12"; all zero is how drivers write that there is none.
std::optional<uint64_t> guidIn(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ':'), text.end());
  const uint64_t guid = std::strtoull(text.c_str(), nullptr, 16);
  return guid == 0 ? std::nullopt : std::optional(guid);
}

/// Takes the interface of an adapter's port from `interfaces`, if there is one.
void join(const SystemFiles& files, const std::string& at, const std::string& busId, PortFacts* facts,
          std::vector<Interface>* interfaces) {
  const std::string told = files.text(at + "gid_attrs/ndevs/0");  // on Ethernet, of newer kernels
  const auto it = std::find_if(interfaces->begin(), interfaces->end(), [&](const Interface& candidate) {
    if (!told.empty()) return candidate.name == told;
    return candidate.busId == busId && candidate.devPort + 1 == facts->number;
  });
  if (it == interfaces->end()) return;
  facts->interface = it->name;
  facts->mtu = it->facts.mtu;
  if (facts->layer.empty()) facts->layer = it->facts.layer;
  if (!facts->megabits) facts->megabits = it->facts.megabits;
  interfaces->erase(it);
}

/// nvidia-peermem, or its predecessor, lets adapters reach NVIDIA GPUs' memory. Without it a kernel may still
/// offer dma-buf, of which no file tells: then it is unknown.
std::optional<bool> peerMemory(const SystemFiles& files) {
  for (const char* sign : {"/sys/module/nvidia_peermem", "/sys/module/nv_peer_mem",
                           "/sys/kernel/mm/memory_peers/nv_mem/version"}) {
    if (files.exists(sign)) return true;
  }
  return std::nullopt;
}

}  // namespace

void readPorts(const SystemFiles& files, Inventory* found) {
  std::vector<Interface> interfaces = readInterfaces(files, found);
  const std::string folder = "/sys/class/infiniband";
  const std::optional<bool> direct = peerMemory(files);
  std::vector<std::string> elsewhere;
  for (const std::string& device : files.entries(folder)) {
    const std::string at = folder + "/" + device;
    const std::vector<std::string> way = busIdsIn(files.resolved(at + "/device"));
    if (way.empty()) {
      elsewhere.push_back(device);
      continue;
    }
    const std::vector<std::string> ports = files.entries(at + "/ports");
    for (const std::string& port : ports) {
      const std::string of = at + "/ports/" + port + "/";
      Port result{way.back(), ports.size() == 1 ? device : device + ":" + port, {}};
      if (const auto number = numberIn(port)) result.facts.number = static_cast<int>(*number);
      result.facts.state = stateIn(files.text(of + "state"));
      result.facts.layer = files.text(of + "link_layer");
      result.facts.megabits = megabitsIn(files.text(of + "rate"));
      result.facts.guid = guidIn(files.text(at + "/node_guid"));
      result.facts.direct = direct;
      join(files, of, result.busId, &result.facts, &interfaces);
      found->ports.push_back(std::move(result));
    }
    if (ports.empty()) found->unread.push_back(at + "/ports: shows no port");
  }
  if (!elsewhere.empty())
    found->unread.push_back(
        folder + ": left out, as there is no PCI device behind them (software's): " + joined(elsewhere));

  std::vector<std::string> twice;
  const size_t devices = found->ports.size();
  for (Interface& interface : interfaces) {
    const bool taken = std::any_of(found->ports.begin(), found->ports.end(), [&](const Port& port) {
      return port.busId == interface.busId && port.facts.number.value_or(1) == interface.devPort + 1;
    });
    if (taken) {
      twice.push_back(interface.name);
      continue;
    }
    interface.facts.number = static_cast<int>(interface.devPort) + 1;
    found->ports.push_back({interface.busId, interface.name, std::move(interface.facts)});
  }
  if (!twice.empty())
    found->unread.push_back("/sys/class/net: left out, as they share a port with another interface: " +
                            joined(twice));
  // As people list them, whatever was preferred above.
  std::sort(found->ports.begin() + static_cast<std::ptrdiff_t>(devices), found->ports.end(),
            [](const Port& a, const Port& b) { return a.name < b.name; });
}

}  // namespace eccl::topology::probe
