// A Host to NCCL's XML.
#include <utility>

#include "topology/formats/nccl_xml.h"
#include "topology/formats/nccl_xml_comment.h"
#include "topology/formats/nccl_xml_values.h"

namespace eccl::topology {
namespace {

/// Indices grouped by an owner, in order: one array, as hosts may be large.
class Groups {
 public:
  template <class Items, class OwnerOf>
  Groups(size_t owners, const Items& items, OwnerOf ownerOf) : starts_(owners + 1) {
    for (const auto& item : items) {
      if (ownerOf(item) >= 0) ++starts_[static_cast<size_t>(ownerOf(item)) + 1];
    }
    for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
    indices_.resize(starts_.back());
    std::vector<size_t> next = starts_;
    int index = 0;
    for (const auto& item : items) {
      if (ownerOf(item) >= 0) indices_[next[static_cast<size_t>(ownerOf(item))]++] = index;
      ++index;
    }
  }
  const int* begin(int owner) const { return indices_.data() + starts_[static_cast<size_t>(owner)]; }
  const int* end(int owner) const { return indices_.data() + starts_[static_cast<size_t>(owner) + 1]; }

 private:
  std::vector<size_t> starts_;
  std::vector<int> indices_;
};

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>' || c == '"' || static_cast<unsigned char>(c) < 0x20) {
      result += format("&#%d;", c);
    } else {
      result += c;
    }
  }
  return result;
}

class Writer {
 public:
  explicit Writer(const Host& host)
      : host_(host),
        children_(host.devices.size(), host.devices, [](const Device& device) { return device.parent; }),
        links_(host.devices.size(), host.fabric, [](const FabricLink& link) { return link.from; }) {}

  std::string write() {
    open("system");
    attribute("version", isAmd() ? 2 : 1);  // RCCL's is 2
    if (!host_.name.empty()) attribute("name", host_.name);
    inside();
    for (const std::string& sentence : host_.unread) text_ += "  <!--" + commentOf(sentence) + "-->\n";
    for (int i = 0; i < static_cast<int>(host_.devices.size()); ++i) {
      const Device& device = host_.devices[i];
      if (device.kind == DeviceKind::cpu) writeCpu(i);
      if (device.kind != DeviceKind::cpu && device.parent == Device::kNone && device.pci) writePci(i);
    }
    close("system", true);
    return std::move(text_);
  }

 private:
  bool isAmd() const {
    for (const FabricLink& link : host_.fabric) {
      if (link.kind == FabricKind::xgmi) return true;
    }
    for (const Device& device : host_.devices) {
      if (device.accelerator && !device.accelerator->gcn.empty()) return true;
    }
    return false;
  }

  // The form of elements.
  void open(const char* tag) { text_.append(2 * static_cast<size_t>(depth_++), ' ').append("<").append(tag); }
  void inside() { text_ += ">\n"; }
  /// `hasContent`: inside() was called.
  void close(const char* tag, bool hasContent) {
    --depth_;
    if (hasContent) {
      text_.append(2 * static_cast<size_t>(depth_), ' ').append("</").append(tag).append(">\n");
    } else {
      text_ += "/>\n";
    }
  }
  void attribute(const char* key, std::string_view value) {
    text_.append(" ").append(key).append("=\"").append(escaped(value)).append("\"");
  }
  template <class Number>
  requires std::is_integral_v<Number>
  void attribute(const char* key, Number value) { attribute(key, std::to_string(value)); }
  template <class Value>
  void attribute(const char* key, const std::optional<Value>& value) {
    if (value) attribute(key, *value);
  }
  void hexadecimal(const char* key, const std::optional<uint64_t>& value, int digits) {
    if (value) attribute(key, format("0x%0*llx", digits, static_cast<unsigned long long>(*value)));
  }
  void nonEmpty(const char* key, const std::string& value) {
    if (!value.empty()) attribute(key, value);
  }

  void writeCpu(int index) {
    const Device& device = host_.devices[index];
    open("cpu");
    attribute("numaid", device.name.substr(3));
    hexadecimal("host_hash", device.cpu->hostHash, 1);
    if (!device.cpu->cores.empty()) attribute("affinity", maskOf(device.cpu->cores));
    attribute("arch", device.cpu->arch);  // NCCL wants both, also empty
    attribute("vendor", device.cpu->vendor);
    attribute("familyid", device.cpu->family);
    attribute("modelid", device.cpu->model);
    const bool hasContent = children_.begin(index) != children_.end(index);
    if (hasContent) inside();
    writeChildren(index);
    close("cpu", hasContent);
  }

  /// Ports that follow each other share a <nic>.
  void writeChildren(int index) {
    bool inNic = false;
    for (const int* child = children_.begin(index); child != children_.end(index); ++child) {
      const bool isPort = host_.devices[*child].kind == DeviceKind::port;
      if (isPort && !inNic) {
        open("nic");
        inside();
      }
      if (!isPort && inNic) close("nic", true);
      inNic = isPort;
      if (isPort) writeNet(*child);
      if (!isPort) writePci(*child);
    }
    if (inNic) close("nic", true);
  }

  void writePci(int index) {
    const Device& device = host_.devices[index];
    const PciFacts& pci = *device.pci;
    const bool hasLinks = links_.begin(index) != links_.end(index);
    PciContents contents;
    contents.gpu = device.kind == DeviceKind::accelerator && (device.accelerator || hasLinks);
    for (const int* child = children_.begin(index); child != children_.end(index); ++child)
      (host_.devices[*child].kind == DeviceKind::port ? contents.nic : contents.pci) = true;
    open("pci");
    attribute("busid", pci.busId);
    if (device.name != pci.busId) attribute("name", device.name);
    if (pci.classCode) hexadecimal("class", *pci.classCode, 6);
    if (!pci.classCode) attribute("class", "");  // NCCL wants it
    if (kindOf(pci, contents) != device.kind) attribute("kind", textOfPciKind(device.kind));
    hexadecimal("vendor", pci.vendor, 4);
    hexadecimal("device", pci.device, 4);
    hexadecimal("subsystem_vendor", pci.subsystemVendor, 4);
    hexadecimal("subsystem_device", pci.subsystemDevice, 4);
    attribute("link_speed", textOfGigatransfers(pci.gigatransfers));  // NCCL wants both, also unknown
    attribute("link_width", pci.width);
    if (pci.ablestGigatransfers > 0) attribute("max_link_speed", textOfGigatransfers(pci.ablestGigatransfers));
    if (pci.ablestWidth > 0) attribute("max_link_width", pci.ablestWidth);
    const bool joined = device.kind == DeviceKind::bridge && hasLinks;
    const bool hasContent = contents.gpu || contents.nic || contents.pci || joined;
    if (hasContent) inside();
    if (contents.gpu) writeGpu(index);
    if (joined) writeLinks(index);
    writeChildren(index);
    close("pci", hasContent);
  }

  void writeGpu(int index) {
    const AcceleratorFacts facts = host_.devices[index].accelerator.value_or(AcceleratorFacts{});
    open("gpu");
    attribute("dev", facts.index);
    attribute("sm", facts.computeCapability);
    nonEmpty("gcn", facts.gcn);
    attribute("arch", facts.arch);
    attribute("rank", facts.rank);
    attribute("gdr", facts.direct);
    const bool hasContent = links_.begin(index) != links_.end(index);
    if (hasContent) inside();
    writeLinks(index);
    close("gpu", hasContent);
  }

  void writeLinks(int index) {
    for (const int* link = links_.begin(index); link != links_.end(index); ++link)
      writeLink(host_.fabric[*link]);
  }

  void writeLink(const FabricLink& link) {
    static constexpr const char* kTags[] = {"nvlink", "c2c", "xgmi", "pcilink"};
    const Device& target = host_.devices[link.to];
    const char* tag = kTags[static_cast<size_t>(link.kind)];
    open(tag);
    if (link.kind != FabricKind::c2c || link.to != host_.cpuOf(link.from)) attribute("target", target.name);
    if (link.bandwidth) attribute("bw", megabytesOf(*link.bandwidth));
    if (link.kind != FabricKind::pciSwitch || link.count != 1) attribute("count", link.count);
    if (link.kind == FabricKind::nvLink || link.kind == FabricKind::xgmi)
      hexadecimal("tclass", classOf(target), 6);
    close(tag, false);
  }

  /// What NCCL goes by to tell the ends of links from each other.
  static uint32_t classOf(const Device& target) {
    constexpr uint32_t kDisplay = 0x030000;
    if (target.kind == DeviceKind::nvSwitch) return kNvSwitchClass;
    if (target.kind == DeviceKind::cpu) return kNvLinkBridgeClass;
    return target.pci && target.pci->classCode ? *target.pci->classCode : kDisplay;
  }

  void writeNet(int index) {
    const Device& device = host_.devices[index];
    const PortFacts& port = *device.port;
    open("net");
    attribute("name", device.name);
    attribute("dev", port.index);
    attribute("speed", port.megabits);
    attribute("max_speed", port.ablestMegabits);
    attribute("port", port.number);
    if (port.latency) attribute("latency", shortest(*port.latency));
    hexadecimal("guid", port.guid, 1);
    attribute("maxconn", port.maxConnections);
    attribute("gdr", port.direct);
    attribute("coll", port.collective);
    attribute("rail", port.rail);
    attribute("plane", port.plane);
    nonEmpty("state", port.state);
    nonEmpty("link_layer", port.layer);
    nonEmpty("interface", port.interface);
    attribute("mtu", port.mtu);
    close("net", false);
  }

  const Host& host_;
  const Groups children_, links_;
  std::string text_;
  int depth_ = 0;
};

}  // namespace

std::string toNcclXml(const Host& host) {
  return validate(host).ok() ? Writer(host).write() : "";
}

}  // namespace eccl::topology
