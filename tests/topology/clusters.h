// Small clusters for the tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "topology/model/clos.h"
#include "topology/model/cluster.h"

namespace eccl {

/// `rails` times an accelerator (0000:01:00.0 and on) and an adapter (0000:81:00.0) with a port (mlx5_0) of 400
/// Gbit/s, each pair below a PCIe 5.0 switch of its own (0000:41:00.0), and one NVSwitch.
inline topology::Host railHost(int rails, bool nvLinked = true) {
  topology::Host host;
  host.name = "rails" + std::to_string(rails);
  topology::Device cpu;
  cpu.kind = topology::DeviceKind::cpu;
  cpu.name = "cpu0";
  cpu.cpu = topology::CpuFacts{{}, "x86_64", "GenuineIntel", 6, 143, {}};
  host.devices.push_back(cpu);
  const auto pci = [&](topology::DeviceKind kind, int parent, int bus) {
    topology::Device device;
    device.kind = kind;
    device.parent = parent;
    device.name = format("0000:%02x:00.0", bus);
    device.pci.emplace();
    device.pci->busId = device.name;
    device.pci->gigatransfers = device.pci->ablestGigatransfers = 32;
    device.pci->width = device.pci->ablestWidth = 16;
    host.devices.push_back(device);
    return static_cast<int>(host.devices.size()) - 1;
  };
  std::vector<int> accelerators;
  for (int r = 0; r < rails; ++r) {
    const int bridge = pci(topology::DeviceKind::bridge, 0, 0x41 + r);
    accelerators.push_back(pci(topology::DeviceKind::accelerator, bridge, 1 + r));
    host.devices.back().accelerator = topology::AcceleratorFacts{r, {}, 90, "", {}, {}};
    const int nic = pci(topology::DeviceKind::nic, bridge, 0x81 + r);
    topology::Device port;
    port.kind = topology::DeviceKind::port;
    port.parent = nic;
    port.name = "mlx5_" + std::to_string(r);
    port.port.emplace();
    port.port->megabits = 400000;
    host.devices.push_back(port);
  }
  if (!nvLinked) return host;
  topology::Device nvSwitch;
  nvSwitch.kind = topology::DeviceKind::nvSwitch;
  nvSwitch.name = "nvswitch0";
  host.devices.push_back(nvSwitch);
  const int hub = static_cast<int>(host.devices.size()) - 1;
  for (int accelerator : accelerators) {
    host.fabric.push_back({accelerator, hub, topology::FabricKind::nvLink, 18, {}});
    host.fabric.push_back({hub, accelerator, topology::FabricKind::nvLink, 18, {}});
  }
  return host;
}

/// Hosts a and b, each with two rails, on one switch.
inline topology::Cluster pairOnOneLeaf() {
  topology::Cluster cluster;
  cluster.types = {railHost(2)};
  cluster.switches = {{"leaf", 1, 4, {}, {}, {}}};
  const int first = cluster.types[0].find("mlx5_0"), second = cluster.types[0].find("mlx5_1");
  for (const char* name : {"a", "b"})
    cluster.hosts.push_back({name, 0, {{first, 0, 50, 0.5}, {second, 0, 50, 0.5}}});
  return cluster;
}

/// Hosts behind leaf and spine switches.
inline topology::Cluster closOf(const topology::Host& host, int hosts, int hostsPerPod, int radix,
                                double leaf = 1, double spine = 1, double trunk = 50) {
  topology::ClosShape shape;
  shape.host = host;
  shape.hosts = hosts;
  shape.hostsPerPod = hostsPerPod;
  shape.radix = radix;
  shape.leafOversubscription = leaf;
  shape.spineOversubscription = spine;
  shape.trunkGigabytes = trunk;
  Result<topology::Cluster> cluster = topology::makeClos(shape);
  EXPECT_TRUE(cluster.ok()) << cluster.status().message();
  return cluster.take();
}

}  // namespace eccl
