#include "topology/model/locations.h"

#include <algorithm>
#include <climits>

#include "base/tokens.h"
#include "topology/model/link_model.h"

namespace eccl::topology {
namespace {

/// The device that both hang below, as parents stand before their children; Device::kNone if there is none.
int commonParent(const Host& host, int a, int b) {
  while (a != b) {
    int& later = a > b ? a : b;
    later = host.devices[static_cast<size_t>(later)].parent;
  }
  return a;
}

/// What the cable and the switch at its end change.
void wire(NetworkPort& port, const Uplink& uplink, const Cluster& cluster) {
  port.gigabytes = port.gigabytes > 0 ? std::min(port.gigabytes, uplink.gigabytes) : uplink.gigabytes;
  port.microseconds += uplink.microseconds;
  if (port.rail < 0) port.rail = cluster.switches[static_cast<size_t>(uplink.toSwitch)].rail.value_or(-1);
}

}  // namespace

std::vector<int> portsNear(const Host& host, int device) {
  std::vector<int> ports = host.all(DeviceKind::port);
  std::erase_if(ports, [&](int port) { return host.devices[static_cast<size_t>(port)].port->state == "down"; });
  // On the way up from the device, what it shares with a port is the nearer the later it stands.
  std::stable_sort(ports.begin(), ports.end(),
                   [&](int a, int b) { return commonParent(host, device, a) > commonParent(host, device, b); });
  return ports;
}

std::vector<int> nearestOf(std::vector<int> ports, const Host& host, int device) {
  std::erase_if(ports, [&, nearest = ports.empty() ? 0 : commonParent(host, device, ports[0])](int port) {
    return commonParent(host, device, port) != nearest;
  });
  return ports;
}

int portOfInterface(const Host& host, std::string_view interface) {
  for (int port : portsNear(host, 0)) {
    const Device& device = host.devices[static_cast<size_t>(port)];
    if (device.port->interface == interface || device.name == interface) return port;
  }
  return Device::kNone;
}

int fastestPort(const Host& host) {
  int fastest = Device::kNone;
  double most = -1;
  for (const Link& link : linksOf(host)) {
    const Device& device = host.devices[static_cast<size_t>(link.a)];
    const double gigabytes = link.assumed ? 0 : link.gigabytes;
    if (device.kind != DeviceKind::port || device.port->state == "down" || gigabytes <= most) continue;
    fastest = link.a;
    most = gigabytes;
  }
  return fastest;
}

std::vector<NetworkPort> networkPorts(const Host& host, std::span<const int> ports, std::string_view hostName) {
  const auto links = linksOf(host);
  std::vector<NetworkPort> all;
  for (int port : ports) {
    const Device& device = host.devices[static_cast<size_t>(port)];
    NetworkPort& found = all.emplace_back();
    found.name = std::string(hostName) + '/' + device.name;
    found.rail = device.port->rail.value_or(-1);
    for (const Link& link : links) {
      if (link.kind != LinkKind::network || link.a != port) continue;
      if (!link.assumed) found.gigabytes = link.gigabytes;
      if (device.port->latency.value_or(0) > 0) found.microseconds = link.microseconds;
    }
  }
  return all;
}

int numaNodeOf(const Host& host, int device) {
  const int cpu = host.cpuOf(device);
  int node = -1;
  if (cpu != Device::kNone)
    readNumber(std::string_view(host.devices[static_cast<size_t>(cpu)].name).substr(3), 0, INT_MAX, node);
  return node;
}

std::vector<RankLocation> locationsOf(const Cluster& cluster) {
  std::vector<double> ranksOn(cluster.hosts.size());
  for (const RankPlace& place : cluster.ranks) ++ranksOn[static_cast<size_t>(place.host)];
  std::vector<RankLocation> locations;
  for (const RankPlace& place : cluster.ranks) {
    const Host& host = cluster.typeOf(place.host);
    const std::string& name = cluster.hosts[static_cast<size_t>(place.host)].name;
    RankLocation& location = locations.emplace_back();
    location.machine = location.host = location.memory = name;
    location.numaNode = numaNodeOf(host, place.device);
    const Device& device = host.devices[static_cast<size_t>(place.device)];
    if (device.kind == DeviceKind::accelerator) location.accelerator = device.name;
    size_t cores = 0;
    for (int cpu : host.all(DeviceKind::cpu)) cores += host.devices[static_cast<size_t>(cpu)].cpu->cores.size();
    location.cores = cores > 0 ? static_cast<double>(cores) : ranksOn[static_cast<size_t>(place.host)];
    const int used = fastestPort(host);
    location.rdma = used != Device::kNone && isRdma(host.devices[static_cast<size_t>(used)]);
    std::vector<int> ports = portsNear(host, place.device);
    std::stable_partition(ports.begin(), ports.end(), [&](int port) { return port == used; });
    location.ports = networkPorts(host, ports, name);
    for (size_t i = 0; i < ports.size(); ++i) {
      for (const Uplink& uplink : cluster.hosts[static_cast<size_t>(place.host)].uplinks)
        if (uplink.port == ports[i]) wire(location.ports[i], uplink, cluster);
    }
    if (location.ports.empty()) location.ports.push_back({name});
  }
  return locations;
}

}  // namespace eccl::topology
