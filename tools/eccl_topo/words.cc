// How parts of a machine are called.
#include <cmath>

#include "commands.h"

namespace eccl::topo {
namespace {

// Generations by gigatransfers per second and lane (PCI Express Base Specification).
const char* generationOf(double gigatransfers) {
  constexpr std::pair<double, const char*> kGenerations[] = {{2.5, "1.0"}, {5, "2.0"},  {8, "3.0"},
                                                             {16, "4.0"},  {32, "5.0"}, {64, "6.0"}};
  for (const auto& [speed, name] : kGenerations) {
    if (std::abs(speed - gigatransfers) < 0.3) return name;
  }
  return nullptr;
}

}  // namespace

HostLinks hostLinks(const topology::Host& host) {
  HostLinks links;
  for (const topology::Link& link : topology::linksOf(host)) {
    if (link.kind >= topology::LinkKind::nvLink)
      links.fabric.push_back(link);
    else
      links.tree[{link.a, link.b}] = link;
  }
  return links;
}

std::string titleOf(const topology::Host& host, int index) {
  const topology::Device& device = host.devices[static_cast<size_t>(index)];
  if (device.accelerator && device.accelerator->index)
    return format("accelerator %d", *device.accelerator->index);
  if (device.kind == topology::DeviceKind::cpu || device.kind == topology::DeviceKind::port ||
      device.kind == topology::DeviceKind::nvSwitch)
    return device.name;
  return topology::nameOf(device.kind);
}

std::string speedOf(const topology::Device& device) {
  if (device.port && device.port->megabits && *device.port->megabits > 0)
    return format("%g Gb/s", static_cast<double>(*device.port->megabits) / 1000);
  if (!device.pci || device.pci->width == 0 || device.pci->gigatransfers == 0) return "";
  if (const char* generation = generationOf(device.pci->gigatransfers))
    return format("PCIe %s x%d", generation, device.pci->width);
  return format("%g GT/s x%d", device.pci->gigatransfers, device.pci->width);
}

}  // namespace eccl::topo
