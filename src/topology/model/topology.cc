// What makes a host valid, and names of its kinds.
#include "topology/model/topology.h"

#include <set>
#include <tuple>
#include <unordered_set>

#include "base/printable.h"

namespace eccl::topology {
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

bool isHub(const Device& device) {
  return device.kind == DeviceKind::cpu || device.kind == DeviceKind::nvSwitch;
}

/// Whether a device may hang below another of that kind.
bool mayHang(DeviceKind kind, DeviceKind parent) {
  if (kind == DeviceKind::port) return parent == DeviceKind::nic || parent == DeviceKind::cpu;
  return parent == DeviceKind::cpu || parent == DeviceKind::bridge;
}

/// A number that a speed or a time can be, so that sums and products of some stay finite; NaN is none.
bool isMeasure(double value) {
  return value >= 0 && value <= 1e9;
}

const char* whatIsWrongWith(const PciFacts& pci) {
  if (pci.busId.empty()) return "has no PCI bus id";
  if (pci.width < 0 || pci.ablestWidth < 0) return "has a negative PCI width";
  for (double speed : {pci.gigatransfers, pci.ablestGigatransfers}) {
    if (!isMeasure(speed) || (speed > 0 && speed < 1e-3)) return "has no possible PCI speed";
  }
  return nullptr;
}

const char* whatIsWrongWith(const PortFacts& port) {
  if (port.megabits.value_or(0) < 0 || port.ablestMegabits.value_or(0) < 0) return "has a negative speed";
  if (!isMeasure(port.latency.value_or(0))) return "has no possible latency";
  return nullptr;
}

const char* whatIsWrongWith(const CpuFacts& cpu) {
  for (size_t i = 0; i < cpu.cores.size(); ++i) {
    if (cpu.cores[i] < 0 || cpu.cores[i] >= kMaxCores || (i > 0 && cpu.cores[i] <= cpu.cores[i - 1]))
      return "has cores out of order or out of range";
  }
  return nullptr;
}

/// "cpu" and a number.
bool isCpuName(const std::string& name) {
  const size_t digits = name.rfind("cpu-", 0) == 0 ? 4 : 3;  // cpu-1: what Linux says where it knows no node
  return name.rfind("cpu", 0) == 0 && name.size() > digits && name.size() < digits + 10 &&
         name.find_first_not_of("0123456789", digits) == name.npos;
}

/// Where in the tree the device is.
const char* whatIsWrongInTree(const Host& host, int index) {
  const Device& device = host.devices[index];
  if (device.kind == DeviceKind::cpu) {
    if (device.parent != Device::kNone) return "is a CPU below a device";
    if (index > 0 && host.devices[index - 1].kind != DeviceKind::cpu) return "is a CPU behind a device";
    if (index >= kMaxCpus) return "is one CPU too many";
    return isCpuName(device.name) ? nullptr : "is a CPU whose name is not cpu<NUMA node>";
  }
  if (device.parent < Device::kNone || device.parent >= index) return "stands before its parent";
  if (device.parent == Device::kNone)
    return device.kind == DeviceKind::port ? "is a port of no adapter" : nullptr;
  if (!mayHang(device.kind, host.devices[device.parent].kind)) return "hangs below a device that carries none";
  if (device.kind == DeviceKind::nvSwitch && !device.pci) return "hangs below a device without PCI facts";
  return nullptr;
}

Status validate(const Host& host, const FabricLink& link) {
  const int devices = static_cast<int>(host.devices.size());
  for (int end : {link.from, link.to}) {
    if (end < 0 || end >= devices)
      return Status::error(Code::invalidArgument, "topology: a %s link names device %d of %d",
                           nameOf(link.kind), end, devices);
  }
  if (link.from == link.to) return wrong(host, link.from, "has a link to itself");
  const DeviceKind from = host.devices[link.from].kind, to = host.devices[link.to].kind;
  if (link.kind == FabricKind::pciSwitch) {
    if (from != DeviceKind::bridge || to != DeviceKind::bridge)
      return wrong(host, link.from, "is joined with a device as if both were PCI bridges");
  } else {
    const bool gives = from == DeviceKind::accelerator, takes = to == DeviceKind::accelerator;
    if (!(gives && takes) && !(gives && isHub(host.devices[link.to])) &&
        !(takes && isHub(host.devices[link.from])))
      return wrong(host, link.from, "has a link that no accelerator is at the end of");
  }
  if (link.count < 1) return wrong(host, link.from, "has a link with a count below 1");
  if (link.bandwidth && !(*link.bandwidth > 0 && isMeasure(*link.bandwidth)))
    return wrong(host, link.from, "has a link without bandwidth; leave the bandwidth out if it is unknown");
  return {};
}

/// Links of CPUs and NVSwitches go both ways, alike.
Status validateWaysBack(const Host& host) {
  std::set<std::tuple<int, int, FabricKind, int, double>> ways;
  for (const FabricLink& link : host.fabric)
    ways.emplace(link.from, link.to, link.kind, link.count, link.bandwidth.value_or(0));
  for (const FabricLink& link : host.fabric) {
    if (!isHub(host.devices[link.from]) && !isHub(host.devices[link.to])) continue;
    if (ways.count({link.to, link.from, link.kind, link.count, link.bandwidth.value_or(0)}) == 0)
      return wrong(host, link.from, "has a link with a CPU or an NVSwitch that does not go back the same way");
  }
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
    case FabricKind::pciSwitch:
      return "PCI switch";
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

void makePrintable(Host& host) {
  const auto print = [](std::string& text) { text = printable(text); };
  print(host.name);
  for (std::string& sentence : host.unread) print(sentence);
  for (Device& device : host.devices) {
    print(device.name);
    if (device.cpu) print(device.cpu->arch), print(device.cpu->vendor);
    if (device.pci) print(device.pci->busId);
    if (device.accelerator) print(device.accelerator->gcn);
    if (device.port) print(device.port->interface), print(device.port->state), print(device.port->layer);
  }
}

Status validate(const Host& host) {
  std::unordered_set<std::string> names;
  std::vector<int> depth(host.devices.size());
  for (int i = 0; i < static_cast<int>(host.devices.size()); ++i) {
    const Device& device = host.devices[i];
    if (device.name.empty()) return wrong(host, i, "has no name");
    if (!names.insert(lowered(device.name)).second) return wrong(host, i, "has another device's name");
    if (const char* what = whatIsWrongInTree(host, i)) return wrong(host, i, what);
    depth[i] = device.parent == Device::kNone ? 1 : depth[device.parent] + 1;
    if (depth[i] > kMaxDepth) return wrong(host, i, "hangs below too many devices");
    if (!hasItsFacts(device)) return wrong(host, i, "lacks the facts of its kind");
    const char* what = device.pci ? whatIsWrongWith(*device.pci) : nullptr;
    if (what == nullptr && device.port) what = whatIsWrongWith(*device.port);
    if (what == nullptr && device.cpu) what = whatIsWrongWith(*device.cpu);
    if (what != nullptr) return wrong(host, i, what);
  }
  for (const FabricLink& link : host.fabric) ECCL_TRY(validate(host, link));
  return validateWaysBack(host);
}

std::vector<int> participantsOf(const Host& host) {
  std::vector<int> accelerators = host.all(DeviceKind::accelerator);
  return accelerators.empty() ? host.all(DeviceKind::cpu) : accelerators;
}

}  // namespace eccl::topology
