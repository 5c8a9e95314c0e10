#include "topology/nccl_xml_links.h"

#include <climits>

#include "topology/nccl_xml.h"

namespace eccl {
namespace {

constexpr size_t kMostLinks = size_t{1} << 20;

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

Status XmlLinks::read(const pugi::xml_node& node, int from) {
  XmlElement element(source_, node);
  ECCL_TRY(element.status());
  Pending pending;
  pending.line = element.line();
  pending.link.from = from;
  pending.link.kind = kindOfLink(node.name());
  std::optional<int> count;
  if (pending.link.kind != FabricKind::pciSwitch) {
    ECCL_TRY(element.number("count", 1, INT_MAX, count));
    if (!count) return element.error("has no count");
  }
  pending.link.count = count.value_or(1);
  ECCL_TRY(element.value("bw", "a bandwidth above 0 in MB/s", gigabytesFromMegabytes, pending.link.bandwidth));
  if (pending.link.bandwidth.value_or(1) > 1e9) return element.error("has a bandwidth that there is not");
  std::optional<uint32_t> targetClass;
  ECCL_TRY(element.value("tclass", "a PCI class such as 0x068000", pciClassFrom, targetClass));
  pending.targetClass = targetClass.value_or(0);
  pending.target = element.text("target").value_or("");
  if (pending.target.empty() && pending.link.kind != FabricKind::c2c) return element.error("has no target");
  for (const pugi::xml_node& child : node.children()) {
    if (child.type() != pugi::node_comment) return element.error("has something inside it");
  }
  if (pending_.size() == kMostLinks) return element.error(format("is link %zu", kMostLinks + 1));
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
  const std::string key = keyOf(pending.target);
  const auto& sameIds = link.kind == FabricKind::pciSwitch ? bridges_ : endpoints_;
  int to = Device::kNone;
  if (pending.target.empty()) {
    to = host_.cpuOf(link.from);  // a Grace CPU's accelerators hang below it
  } else if (const auto found = sameIds.find(key); found != sameIds.end()) {
    to = found->second;
  } else if (const auto named = names_.find(key); named != names_.end()) {
    to = named->second;
  } else if (pending.targetClass == kNvLinkBridgeClass) {
    to = host_.cpuOf(link.from);  // a POWER CPU's NVLink: the bridge is part of it
  } else if (pending.targetClass == kNvSwitchClass) {
    // NCCL does not write switches down, and cannot see a hypervisor's.
    if (host_.devices.size() == kMostXmlDevices)
      return source_.error(pending.line, format("an NVSwitch is device %zu", kMostXmlDevices + 1));
    Device device;
    device.kind = DeviceKind::nvSwitch;
    device.name = busIdFrom(pending.target).value_or(pending.target);
    to = static_cast<int>(host_.devices.size());
    announce(device, to);
    host_.devices.push_back(std::move(device));
  }
  if (to == Device::kNone) {
    leaveOut(pending, "whose target is not in the file");
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

void XmlLinks::leaveOut(const Pending& pending, const char* why) {
  source_.note(pending.line,
               format("%s has a link (%s) %s, which is left out", host_.devices[pending.link.from].name.c_str(),
                      nameOf(pending.link.kind), why));
}

}  // namespace eccl
