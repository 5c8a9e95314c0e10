// NCCL's XML to a Host. Two passes: the tree of elements, then the links, whose targets may stand anywhere.
#include <climits>
#include <cstring>
#include <pugixml.hpp>
#include <unordered_map>

#include "topology/nccl_xml.h"
#include "topology/nccl_xml_comment.h"
#include "topology/nccl_xml_element.h"
#include "topology/nccl_xml_links.h"

namespace eccl {
namespace {

bool isElement(const pugi::xml_node& node, const char* name) {
  return node.type() == pugi::node_element && std::strcmp(node.name(), name) == 0;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : source_(text, name), links_(source_, host_) {}

  Result<Host> read(const pugi::xml_document& document) {
    pugi::xml_node system;
    for (const pugi::xml_node& node : document.children()) {
      if (node.type() != pugi::node_element) continue;
      if (system || !isElement(node, "system"))
        return source_.error(source_.lineOf(node),
                             "a topology is one <system>, not <" + quoted(node.name()) + ">");
      system = node;
    }
    ECCL_TRY(readSystem(system));
    ECCL_TRY(links_.resolve());
    for (std::string& sentence : source_.notes()) host_.unread.push_back(std::move(sentence));
    // Nothing should be left for this to find; what it finds has no line.
    if (Status status = validate(host_); !status.ok()) return source_.error(1, status.message());
    return std::move(host_);
  }

 private:
  Status readSystem(const pugi::xml_node& node) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    std::optional<int> version;
    ECCL_TRY(element.number("version", 1, 2, version));
    if (!version) return element.error("has no version");
    host_.name = element.text("name").value_or("");
    std::vector<pugi::xml_node> cpus;  // as many devices, in the same order
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_comment) {
        if (auto sentence = unreadFrom(child.value())) host_.unread.push_back(*sentence);
      } else if (isElement(child, "cpu")) {
        ECCL_TRY(readCpu(child));
        cpus.push_back(child);
      }
    }
    for (size_t i = 0; i < cpus.size(); ++i) ECCL_TRY(readChildren(cpus[i], static_cast<int>(i), 1));
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "pci")) {
        ECCL_TRY(readPci(child, Device::kNone, 1));
      } else if (isElement(child, "nic")) {
        if (cpus.empty()) return source_.error(source_.lineOf(child), "<nic> below a <system> without <cpu>");
        source_.note(source_.lineOf(child), "<nic> below <system> is taken as below the first <cpu>");
        ECCL_TRY(readNic(child, 0));
      } else if (!isElement(child, "cpu")) {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readCpu(const pugi::xml_node& node) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    CpuFacts facts;
    std::optional<int> nodeNumber;
    ECCL_TRY(element.number("numaid", -1, INT_MAX, nodeNumber));
    if (!nodeNumber) return element.error("has no numaid");
    std::optional<std::vector<int>> cores;
    ECCL_TRY(element.value(
        "affinity", "a mask of CPUs, groups of 8 hexadecimal digits",
        [](const auto& text) { return text.empty() ? std::vector<int>{} : coresFrom(text); }, cores));
    facts.cores = cores.value_or(std::vector<int>{});
    facts.arch = element.text("arch").value_or("");
    facts.vendor = element.text("vendor").value_or("");
    ECCL_TRY(element.number("familyid", 0, INT_MAX, facts.family));
    ECCL_TRY(element.number("modelid", 0, INT_MAX, facts.model));
    ECCL_TRY(element.number("host_hash", uint64_t{0}, UINT64_MAX, facts.hostHash));
    if (!host_.devices.empty() && facts.hostHash != host_.devices[0].cpu->hostHash)
      return element.error("has another host_hash than the first: this is a cluster's topology, not a host's");
    if (host_.devices.size() == kMostCpus) return element.error(format("is more than %d", kMostCpus));
    Device device;
    device.kind = DeviceKind::cpu;
    device.name = "cpu" + std::to_string(*nodeNumber);
    device.cpu = std::move(facts);
    return add(element, std::move(device));
  }

  /// What hangs below a CPU.
  Status readChildren(const pugi::xml_node& node, int parent, int depth) {
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "pci")) {
        ECCL_TRY(readPci(child, parent, depth + 1));
      } else if (isElement(child, "nic")) {
        ECCL_TRY(readNic(child, parent));
      } else {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readPci(const pugi::xml_node& node, int parent, int depth) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    if (depth > kMostDepth - 1) return element.error(format("is nested deeper than %d", kMostDepth - 1));
    Device device;
    device.parent = parent;
    ECCL_TRY(readPciFacts(element, device.pci.emplace()));
    const PciContents contents{!node.child("gpu").empty(), !node.child("nic").empty(),
                               !node.child("pci").empty()};
    if (contents.gpu + contents.nic + contents.pci > 1)
      return element.error("has more than one of <gpu>, <nic> and <pci> below it");
    std::optional<DeviceKind> kind;
    ECCL_TRY(element.value("kind", "bridge, accelerator, nic, nvswitch or other", pciKindFrom, kind));
    device.kind = kind.value_or(kindOf(*device.pci, contents));
    if (contents.gpu && device.kind != DeviceKind::accelerator) return element.error("has a <gpu> and is none");
    if (contents.nic && device.kind != DeviceKind::nic) return element.error("has a <nic> and is none");
    if (contents.pci && device.kind != DeviceKind::bridge) return element.error("has a <pci> and is no bridge");
    ECCL_TRY(name(element, device));
    const int index = static_cast<int>(host_.devices.size());
    ECCL_TRY(add(element, std::move(device)));
    for (const pugi::xml_node& child : node.children("gpu")) ECCL_TRY(readGpu(child, index));
    return readPciChildren(node, index, depth);
  }

  Status readPciFacts(XmlElement& element, PciFacts& facts) {
    std::optional<std::string> busId;
    ECCL_TRY(element.value("busid", "a PCI bus id such as 0000:3b:00.0", busIdFrom, busId));
    if (!busId) return element.error("has no busid");
    facts.busId = *busId;
    if (const auto code = element.text("class"); code && !code->empty()) {  // empty: not known
      ECCL_TRY(element.value("class", "a PCI class such as 0x030200", pciClassFrom, facts.classCode));
    }
    constexpr uint32_t kMostId = UINT32_MAX;
    ECCL_TRY(element.number("vendor", 0U, kMostId, facts.vendor));
    ECCL_TRY(element.number("device", 0U, kMostId, facts.device));
    ECCL_TRY(element.number("subsystem_vendor", 0U, kMostId, facts.subsystemVendor));
    ECCL_TRY(element.number("subsystem_device", 0U, kMostId, facts.subsystemDevice));
    ECCL_TRY(readLink(element, "link_speed", "link_width", facts.gigatransfers, facts.width));
    return readLink(element, "max_link_speed", "max_link_width", facts.ablestGigatransfers, facts.ablestWidth);
  }

  static Status readLink(XmlElement& element, const char* speedKey, const char* widthKey, double& speed,
                         int& width) {
    constexpr double kLeastSpeed = 1e-3, kMostSpeed = 1e6;
    constexpr int kMostWidth = 64;  // PCI Express ends at 32
    std::optional<double> gigatransfers;
    ECCL_TRY(element.value(
        speedKey, "a speed such as 16.0 GT/s PCIe",
        [](std::string_view text) {
          const auto found = gigatransfersFrom(text);
          return found && (*found == 0 || (*found >= kLeastSpeed && *found <= kMostSpeed)) ? found
                                                                                           : std::nullopt;
        },
        gigatransfers));
    speed = gigatransfers.value_or(0);
    std::optional<int> lanes;
    if (const auto text = element.text(widthKey); text && !text->empty())  // NCCL writes "" where it knows none
      ECCL_TRY(element.number(widthKey, 0, kMostWidth, lanes));
    width = lanes.value_or(0);
    return {};
  }

  /// A device is called after its bus id. Files repeat those of bridges (a hypervisor's are made up); only
  /// where one of both is a bridge is it clear which one a link means.
  Status name(XmlElement& element, Device& device) {
    if (const auto given = element.text("name")) {
      device.name = *given;
      return {};
    }
    device.name = device.pci->busId;
    auto& [count, bridges] = busIds_[device.pci->busId];
    ++count;
    if (device.kind == DeviceKind::bridge) ++bridges;
    if (count == 1) return {};
    if (count - bridges > 1) return element.error("has the bus id of another device");
    element.note("<pci> has a bus id that was there before: " + device.name);
    device.name += "#" + std::to_string(count);
    return {};
  }

  Status readPciChildren(const pugi::xml_node& node, int index, int depth) {
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "pci")) {
        ECCL_TRY(readPci(child, index, depth + 1));
      } else if (isElement(child, "nic")) {
        ECCL_TRY(readNic(child, index));
      } else if (isElement(child, "pcilink")) {
        ECCL_TRY(links_.read(child, index));
      } else if (!isElement(child, "gpu")) {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readGpu(const pugi::xml_node& node, int index) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    AcceleratorFacts facts;
    ECCL_TRY(element.number("dev", 0, INT_MAX, facts.index));
    ECCL_TRY(element.number("rank", 0, INT_MAX, facts.rank));
    ECCL_TRY(element.number("sm", 0, INT_MAX, facts.computeCapability));
    ECCL_TRY(element.number("arch", INT_MIN, INT_MAX, facts.arch));
    facts.gcn = element.text("gcn").value_or("");
    ECCL_TRY(element.flag("gdr", facts.direct));
    if (seenGpu_ == index) {
      element.note("<pci> has a second <gpu>, which is not kept");
      return {};
    }
    seenGpu_ = index;
    if (!(facts == AcceleratorFacts{})) host_.devices[index].accelerator = std::move(facts);
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "nvlink") || isElement(child, "xgmi") || isElement(child, "c2c")) {
        ECCL_TRY(links_.read(child, index));
      } else {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readNic(const pugi::xml_node& node, int parent) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "net")) {
        ECCL_TRY(readNet(child, parent));
      } else {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readNet(const pugi::xml_node& node, int parent) {
    XmlElement element(source_, node);
    ECCL_TRY(element.status());
    Device device;
    device.kind = DeviceKind::port;
    device.parent = parent;
    PortFacts& port = device.port.emplace();
    ECCL_TRY(element.number("dev", 0, INT_MAX, port.index));
    ECCL_TRY(element.number("port", 0, INT_MAX, port.number));
    ECCL_TRY(readSpeed(element, "speed", port.megabits));
    ECCL_TRY(readSpeed(element, "max_speed", port.ablestMegabits));
    ECCL_TRY(element.number("guid", uint64_t{0}, UINT64_MAX, port.guid));
    ECCL_TRY(element.value(
        "latency", "a time in microseconds",
        [](std::string_view text) {
          const auto found = realNumber(text);
          return found && *found >= 0 && *found <= 1e9 ? found : std::nullopt;
        },
        port.latency));
    ECCL_TRY(element.number("maxconn", 0, INT_MAX, port.maxConnections));
    ECCL_TRY(element.flag("gdr", port.direct));
    ECCL_TRY(element.flag("coll", port.collective));
    ECCL_TRY(element.number("rail", INT_MIN, INT_MAX, port.rail));
    ECCL_TRY(element.number("plane", INT_MIN, INT_MAX, port.plane));
    ECCL_TRY(element.number("mtu", 0, INT_MAX, port.mtu));
    port.state = element.text("state").value_or("");
    port.layer = element.text("link_layer").value_or("");
    port.interface = element.text("interface").value_or("");
    const std::optional<std::string> name = element.text("name");
    if (!name && !port.index) return element.error("has neither a name nor a dev");
    device.name = name ? *name : "net" + std::to_string(*port.index);
    for (const pugi::xml_node& child : node.children()) ECCL_TRY(skip(child));
    return add(element, std::move(device));
  }

  static Status readSpeed(XmlElement& element, const char* key, std::optional<int64_t>& speed) {
    ECCL_TRY(element.number(key, int64_t{-1}, INT64_MAX, speed));
    if (speed == -1) {  // drivers say so where there is no link
      element.note(format("<net> has %s=-1, taken as unknown", key));
      speed.reset();
    }
    return {};
  }

  Status add(const XmlElement& element, Device device) {
    if (host_.devices.size() == kMostXmlDevices)
      return element.error(format("is device %zu", kMostXmlDevices + 1));
    if (device.name.empty()) return element.error("has an empty name");
    if (!links_.announce(device, static_cast<int>(host_.devices.size())))
      return element.error("is the second device called " + quoted(device.name));
    host_.devices.push_back(std::move(device));
    return {};
  }

  /// What no rule is for: text is an error, an element a note, a comment nothing.
  Status skip(const pugi::xml_node& node) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata)
      return source_.error(source_.lineOf(node), "text where an element is expected: " + quoted(node.value()));
    if (node.type() == pugi::node_element)
      source_.note(source_.lineOf(node), "<" + std::string(node.parent().name()) + "> has an element " +
                                             quoted(node.name()) + ", which is not kept");
    return {};
  }

  XmlSource source_;
  Host host_;
  XmlLinks links_;
  struct Uses {
    int count = 0, bridges = 0;
  };
  std::unordered_map<std::string, Uses> busIds_;
  int seenGpu_ = Device::kNone;  // the accelerator whose <gpu> was read last
};

}  // namespace

Result<Host> parseNcclXml(std::string_view text, const std::string& name) {
  const XmlSource source(text.substr(0, kMostXmlBytes), name);
  if (text.size() > kMostXmlBytes)
    return source.error(
        1, format("%zu bytes are more than the %zu that a topology may have", text.size(), kMostXmlBytes));
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return source.error(source.lineAt(static_cast<ptrdiff_t>(nul)), "a byte 0: this is no text");
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_comments, pugi::encoding_utf8);
  if (!result) return source.error(source.lineAt(result.offset), result.description());
  return Reader(text, name).read(document);
}

}  // namespace eccl
