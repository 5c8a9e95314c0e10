// Resolving links: which device a target means, and what is left out, as NCCL does.
#include "topology/formats/nccl_xml_links.h"

#include <climits>

#include "topology/formats/nccl_xml.h"

namespace eccl::topology {
namespace {

constexpr size_t kMaxLinks = size_t{1} << 20;

std::string lowered(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

/// Bus ids in one spelling; other names in lower case.
std::string keyOf(const std::string& target) {
  return busIdFrom(target).value_or(lowered(target));
}

FabricKind kindOfLink(std::string_view tag) {
  if (tag == "nvlink") return FabricKind::nvLink;
  if (tag == "xgmi") return FabricKind::xgmi;
  return tag == "c2c" ? FabricKind::c2c : FabricKind::pciSwitch;
}

}  // namespace

bool XmlLinks::announce(const Device& device, int index) {
  if (!names_.emplace(lowered(device.name), index).second) return false;
  if (device.pci) (device.kind == DeviceKind::bridge ? bridges_ : endpoints_).emplace(device.pci->busId, index);
  return true;
}

int XmlLinks::find(const std::string& name) const {
  const auto found = names_.find(lowered(name));
  return found == names_.end() ? Device::kNone : found->second;
}

Status XmlLinks::read(const pugi::xml_node& node, int from) {
  XmlElement element(source_, node);
  Pending pending;
  pending.line = element.line();
  pending.link.from = from;
  pending.link.kind = kindOfLink(node.name());
  std::optional<int> count;
  if (pending.link.kind != FabricKind::pciSwitch) {
    element.number("count", 1, INT_MAX, count);
  } else {
    count = 1;
  }
  pending.link.count = count.value_or(0);
  constexpr double kMax = 1e9;
  element.value(
      "bw", "a bandwidth above 0 in MB/s",
      [](const std::string& text) {
        const auto found = gigabytesFromMegabytes(text);
        return found && *found <= kMax ? found : std::nullopt;
      },
      pending.link.bandwidth);
  std::optional<uint32_t> targetClass;
  element.value("tclass", "a PCI class such as 0x068000", pciClassFrom, targetClass);
  pending.targetClass = targetClass.value_or(0);
  pending.target = element.text("target").value_or("");
  for (const pugi::xml_node& child : node.children()) {
    if (child.type() != pugi::node_comment)
      element.note(format("<%s> has something inside, which is not kept", node.name()));
  }
  if (pending_.size() == kMaxLinks) return element.error(format("is link %zu", kMaxLinks + 1));
  pending_.push_back(std::move(pending));
  return {};
}

Status XmlLinks::resolve() {
  for (Pending& pending : pending_) {
    ECCL_ASSIGN(const int to, targetOf(pending));
    if (to == Device::kNone) continue;
    FabricLink& link = pending.link;
    link.to = to;
    host_.fabric.push_back(link);
    const DeviceKind kind = host_.devices[to].kind;
    if (kind != DeviceKind::cpu && kind != DeviceKind::nvSwitch) continue;
    std::swap(link.from, link.to);  // neither writes its own links down
    host_.fabric.push_back(link);
  }
  return {};
}

/// The device that a link leads to, made if it is an NVSwitch that nothing else names; kNone and a note if the
/// link is to be left out.
Result<int> XmlLinks::targetOf(const Pending& pending) {
  const FabricLink& link = pending.link;
  if (link.count < 1) {
    leaveOut(pending, "whose count is none");
    return Device::kNone;
  }
  const auto& sameIds = link.kind == FabricKind::pciSwitch ? bridges_ : endpoints_;
  int to = Device::kNone;
  const bool hub = pending.targetClass == kNvSwitchClass || pending.targetClass == kNvLinkBridgeClass;
  // NCCL looks at bus ids in any spelling, and not at what a switch or a CPU is called.
  for (const std::string& key : {keyOf(pending.target), hub ? "" : busIdAsNccl(pending.target)}) {
    if (to != Device::kNone || pending.target.empty()) break;
    const auto found = sameIds.find(key);
    to = found != sameIds.end() ? found->second : find(key);
  }
  if (to == Device::kNone && (pending.targetClass == kNvLinkBridgeClass || link.kind == FabricKind::c2c)) {
    // A POWER CPU's NVLink, as the bridge is part of it; a Grace CPU's accelerators hang below it.
    if (pending.target.empty() || link.kind != FabricKind::c2c) to = host_.cpuOf(link.from);
  } else if (to == Device::kNone && pending.targetClass == kNvSwitchClass) {
    ECCL_ASSIGN(to, switchCalled(pending));
  }
  if (to == Device::kNone) {
    leaveOut(pending, pending.target.empty() ? "without a target" : "whose target is not in the file");
    return to;
  }
  if (to == link.from) {
    leaveOut(pending, "to itself");
    return Device::kNone;
  }
  const DeviceKind kind = host_.devices[to].kind;
  const bool possible =
      link.kind == FabricKind::pciSwitch
          ? kind == DeviceKind::bridge && host_.devices[link.from].kind == DeviceKind::bridge
          : kind == DeviceKind::accelerator || kind == DeviceKind::cpu || kind == DeviceKind::nvSwitch;
  if (possible) return to;
  leaveOut(pending, "whose target cannot have any");
  return Device::kNone;
}

/// NCCL does not write NVSwitches down, and cannot see a hypervisor's.
Result<int> XmlLinks::switchCalled(const Pending& pending) {
  Device device;
  device.kind = DeviceKind::nvSwitch;
  device.name = pending.target.empty() ? "nvswitch0" : busIdFrom(pending.target).value_or(pending.target);
  if (const int there = find(device.name); there != Device::kNone) return there;
  if (host_.devices.size() == kMaxXmlDevices)
    return source_.error(pending.line, format("an NVSwitch is device %zu", kMaxXmlDevices + 1));
  const int index = static_cast<int>(host_.devices.size());
  announce(device, index);
  host_.devices.push_back(std::move(device));
  return index;
}

void XmlLinks::leaveOut(const Pending& pending, const char* why) {
  source_.note(pending.line,
               format("%s has a link (%s) %s, which is left out", host_.devices[pending.link.from].name.c_str(),
                      nameOf(pending.link.kind), why),
               true);
}

}  // namespace eccl::topology
