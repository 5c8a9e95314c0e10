// From what was found to a Host: which PCI functions matter, what they are, and what hangs below what.
#include <algorithm>
#include <map>

#include "topology/probe/probe_parts.h"

namespace eccl::topology::probe {
namespace {

constexpr uint32_t kNvidia = 0x10de, kAmd = 0x1002, kIntel = 0x8086;

class Assembly {
 public:
  explicit Assembly(Inventory found) : found_(std::move(found)) {
    for (size_t i = 0; i < found_.functions.size(); ++i)
      place_[found_.functions[i].facts.busId] = static_cast<int>(i);
    state_.resize(found_.functions.size());
  }

  Host take() {
    host_.name = found_.hostName;
    host_.unread = std::move(found_.unread);
    addCpus();
    markWanted();
    // By bus id, but parents first; a domain of more digits is a larger one.
    std::vector<int> order;
    for (const auto& [busId, i] : place_) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return busIdOf(a).size() < busIdOf(b).size(); });
    for (int i : order) add(i);
    addPorts();
    tell();
    return std::move(host_);
  }

 private:
  struct State {
    bool wanted = false;  // an accelerator, an adapter, an NVSwitch, or above one
    bool added = false;
    int device = Device::kNone;
  };

  const std::string& busIdOf(int function) const { return found_.functions[function].facts.busId; }
  int aboveOf(int function) const {
    const auto it = place_.find(found_.functions[function].above);
    return it == place_.end() ? Device::kNone : it->second;
  }

  void addCpus() {
    std::sort(found_.nodes.begin(), found_.nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
    // Memory without cores (of a GPU, of CXL, high-bandwidth memory) is nobody's place.
    const bool cores = std::any_of(found_.nodes.begin(), found_.nodes.end(),
                                   [](const NumaNode& node) { return !node.cpus.empty(); });
    for (const NumaNode& node : found_.nodes) {
      if (cores && node.cpus.empty()) continue;
      Device device;
      device.kind = DeviceKind::cpu;
      device.name = format("cpu%d", node.number);
      device.cpu = found_.cpu;
      device.cpu->cores = node.cpus;
      cpuOfNode_[node.number] = static_cast<int>(host_.devices.size());
      host_.devices.push_back(std::move(device));
    }
  }

  /// What carries a collective's data is wanted; of bridges those above it.
  DeviceKind kindOf(int i) const {
    const PciFacts& facts = found_.functions[i].facts;
    const uint32_t code = facts.classCode.value_or(0), vendor = facts.vendor.value_or(0);
    switch (code >> 16) {
      case 0x02:
        return DeviceKind::nic;
      case 0x03:
        if (code >> 8 == 0x0302) return DeviceKind::accelerator;  // "3D controller": computes, shows nothing
        // Other display controllers are the service processor's picture, or an emulated one, unless these firms
        // made them. Intel's that sits on the root bus is part of the CPU.
        if (vendor == kNvidia || vendor == kAmd || (vendor == kIntel && aboveOf(i) != Device::kNone))
          return DeviceKind::accelerator;
        return DeviceKind::other;
      case 0x06:
        if (code >> 8 == 0x0604) return DeviceKind::bridge;
        return code >> 8 == 0x0680 && vendor == kNvidia ? DeviceKind::nvSwitch : DeviceKind::other;
      case 0x0c:
        return code >> 8 == 0x0c06 ? DeviceKind::nic : DeviceKind::other;  // InfiniBand of old
      case 0x12:
        return DeviceKind::accelerator;
      default:
        return DeviceKind::other;
    }
  }

  void markWanted() {
    for (int i = 0; i < static_cast<int>(state_.size()); ++i) {
      const DeviceKind kind = kindOf(i);
      if (kind == DeviceKind::bridge || kind == DeviceKind::other) continue;
      if (found_.functions[i].isVirtual) {
        ++virtuals_;
        continue;
      }
      for (int at = i; at != Device::kNone && !state_[at].wanted; at = aboveOf(at)) state_[at].wanted = true;
    }
  }

  /// Whether a bridge is the upper side of a switch, which is the one that stands for the switch. Root ports
  /// and a switch's lower ports join nothing to anything; with them two devices below one switch would look as
  /// far from each other as devices below three. So levels alternate from the root bus down: root port, switch,
  /// its port, ...
  bool isSwitch(int bridge) const {
    const int above = aboveOf(bridge);
    return above != Device::kNone && !isSwitch(above);
  }

  void add(int i) {
    if (!state_[i].wanted || state_[i].added) return;
    state_[i].added = true;
    const int above = aboveOf(i);
    if (above != Device::kNone) add(above);
    const DeviceKind kind = kindOf(i);
    if (kind == DeviceKind::bridge && !isSwitch(i)) {
      state_[i].device = above == Device::kNone ? Device::kNone : state_[above].device;
      return;
    }
    Device device;
    device.kind = kind;
    device.name = busIdOf(i);
    device.pci = found_.functions[i].facts;
    if (above != Device::kNone) limit(found_.functions[above].facts, &*device.pci);
    int parent = above == Device::kNone ? Device::kNone : state_[above].device;
    if (parent == Device::kNone) parent = cpuFor(i);
    device.parent = parent;
    state_[i].device = static_cast<int>(host_.devices.size());
    host_.devices.push_back(std::move(device));
  }

  /// A link does what both its ends can.
  static void limit(const PciFacts& above, PciFacts* facts) {
    if (above.ablestGigatransfers > 0 && facts->ablestGigatransfers > 0)
      facts->ablestGigatransfers = std::min(facts->ablestGigatransfers, above.ablestGigatransfers);
    if (above.ablestWidth > 0 && facts->ablestWidth > 0)
      facts->ablestWidth = std::min(facts->ablestWidth, above.ablestWidth);
  }

  int cpuFor(int function) {
    for (int at = function; at != Device::kNone; at = aboveOf(at)) {
      const auto it =
          found_.functions[at].node ? cpuOfNode_.find(*found_.functions[at].node) : cpuOfNode_.end();
      if (it != cpuOfNode_.end()) return it->second;
    }
    if (cpuOfNode_.size() == 1) return cpuOfNode_.begin()->second;
    homeless_.push_back(busIdOf(function));
    return Device::kNone;
  }

  void addPorts() {
    for (Port& port : found_.ports) {
      const auto it = place_.find(port.busId);
      const int parent = it == place_.end() ? Device::kNone : state_[it->second].device;
      if (it != place_.end() && found_.functions[it->second].isVirtual) continue;
      if (parent == Device::kNone || host_.devices[parent].kind != DeviceKind::nic) {
        host_.unread.push_back(port.name + ": left out, as it hangs on " + port.busId +
                               ", which is no network adapter on PCI that can be seen");
        continue;
      }
      if (host_.find(port.name) != Device::kNone) {
        host_.unread.push_back(port.name + ": left out, as another port has its name");
        continue;
      }
      Device device;
      device.kind = DeviceKind::port;
      device.parent = parent;
      device.name = std::move(port.name);
      device.port = std::move(port.facts);
      host_.devices.push_back(std::move(device));
    }
  }

  /// What a reader of the Host would otherwise take for a fact.
  void tell() {
    std::vector<std::string> portless, linkless;
    for (int i = 0; i < static_cast<int>(host_.devices.size()); ++i) {
      const Device& device = host_.devices[i];
      if (!device.pci) continue;
      if (device.pci->gigatransfers == 0 || device.pci->width == 0) linkless.push_back(device.name);
      if (device.kind != DeviceKind::nic) continue;
      const bool port = std::any_of(host_.devices.begin(), host_.devices.end(),
                                    [i](const Device& other) { return other.parent == i; });
      if (!port) portless.push_back(device.name);
    }
    say(portless,
        "network adapters without a port that can be seen here (no driver, or it belongs to another network"
        " namespace)");
    say(linkless, "the speed or width of their PCI links is not told (virtual machines hide it)");
    say(homeless_, "the firmware does not tell which NUMA node they are near");
    if (virtuals_ > 0)
      host_.unread.push_back(
          format("%d virtual functions left out: they share the ports of adapters that are listed", virtuals_));
  }
  void say(const std::vector<std::string>& names, const char* what) {
    if (!names.empty()) host_.unread.push_back(joined(names) + ": " + what);
  }

  Inventory found_;
  Host host_;
  std::map<std::string, int> place_;  // bus id -> index into found_.functions
  std::vector<State> state_;          // of each function
  std::map<int, int> cpuOfNode_;      // NUMA node -> device
  std::vector<std::string> homeless_;
  int virtuals_ = 0;
};

}  // namespace

Host assemble(Inventory found) {
  return Assembly(std::move(found)).take();
}

}  // namespace eccl::topology::probe
