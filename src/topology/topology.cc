#include "topology/topology.h"

#include <unordered_set>

namespace eccl {
namespace {

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

Status wrong(const Host& host, int device, const char* what) {
  const std::string where = host.name.empty() ? "" : " of host " + host.name;
  return Status::error(Code::invalidArgument, "topology: device %d (%s)%s %s", device,
                       host.devices[device].name.c_str(), where.c_str(), what);
}

bool hasItsFacts(const Device& device) {
  switch (device.kind) {
    case DeviceKind::cpu:
      return device.cpu.has_value();
    case DeviceKind::port:
      return device.port.has_value();
    case DeviceKind::nvSwitch:
      return true;
    case DeviceKind::bridge:
    case DeviceKind::accelerator:
    case DeviceKind::nic:
    case DeviceKind::other:
      return device.pci.has_value();
  }
  return false;
}

Status validate(const Host& host, const FabricLink& link) {
  const int devices = static_cast<int>(host.devices.size());
  for (int end : {link.from, link.to}) {
    if (end < 0 || end >= devices)
      return Status::error(Code::invalidArgument, "topology: a %s link names device %d of %d",
                           nameOf(link.kind), end, devices);
  }
  if (link.from == link.to) return wrong(host, link.from, "has a link to itself");
  if (link.count < 1) return wrong(host, link.from, "has a link with a count below 1");
  if (link.bandwidth && !(*link.bandwidth > 0))
    return wrong(host, link.from, "has a link without bandwidth; leave the bandwidth out if it is unknown");
  return {};
}

}  // namespace

const char* nameOf(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::cpu:
      return "CPU";
    case DeviceKind::bridge:
      return "PCI bridge";
    case DeviceKind::accelerator:
      return "accelerator";
    case DeviceKind::nic:
      return "network adapter";
    case DeviceKind::port:
      return "port";
    case DeviceKind::nvSwitch:
      return "NVSwitch";
    case DeviceKind::other:
      return "device";
  }
  return "unknown";
}

const char* nameOf(FabricKind kind) {
  switch (kind) {
    case FabricKind::nvLink:
      return "NVLink";
    case FabricKind::c2c:
      return "C2C";
    case FabricKind::xgmi:
      return "xGMI";
  }
  return "unknown";
}

int Host::find(std::string_view deviceName) const {
  const std::string wanted = lowered(deviceName);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (lowered(devices[i].name) == wanted) return static_cast<int>(i);
  }
  return Device::kNone;
}

std::vector<int> Host::all(DeviceKind kind) const {
  std::vector<int> result;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].kind == kind) result.push_back(static_cast<int>(i));
  }
  return result;
}

int Host::cpuOf(int device) const {
  while (device != Device::kNone && devices[device].kind != DeviceKind::cpu) device = devices[device].parent;
  return device;
}

Status validate(const Host& host) {
  std::unordered_set<std::string> names;
  for (int i = 0; i < static_cast<int>(host.devices.size()); ++i) {
    const Device& device = host.devices[i];
    if (device.name.empty()) return wrong(host, i, "has no name");
    if (!names.insert(lowered(device.name)).second) return wrong(host, i, "has another device's name");
    if (device.parent < Device::kNone || device.parent >= i) return wrong(host, i, "stands before its parent");
    if (device.kind == DeviceKind::cpu && device.parent != Device::kNone)
      return wrong(host, i, "is a CPU below a device");
    if (device.kind == DeviceKind::port && device.parent == Device::kNone)
      return wrong(host, i, "is a port of no adapter");
    if (!hasItsFacts(device)) return wrong(host, i, "lacks the facts of its kind");
    if (device.pci && (device.pci->width < 0 || device.pci->gigatransfers < 0))
      return wrong(host, i, "has a negative PCI width or speed");
    if (device.port && device.port->megabits && *device.port->megabits < 0)
      return wrong(host, i, "has a negative speed");
  }
  for (const FabricLink& link : host.fabric) ECCL_TRY(validate(host, link));
  return {};
}

}  // namespace eccl
