// NCCL's XML to a Host. Two passes: the tree of elements, then the links, whose targets may stand anywhere.
#include <algorithm>
#include <climits>
#include <cstring>
#include <pugixml.hpp>
#include <unordered_map>

#include "base/printable.h"
#include "topology/formats/nccl_xml.h"
#include "topology/formats/nccl_xml_comment.h"
#include "topology/formats/nccl_xml_element.h"
#include "topology/formats/nccl_xml_links.h"

namespace eccl::topology {
namespace {

bool isElement(const pugi::xml_node& node, const char* name) {
  return node.type() == pugi::node_element && std::strcmp(node.name(), name) == 0;
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : source_(text, name), links_(source_, host_) {}

  Result<Host> read(const pugi::xml_document& document, std::vector<std::string>* oddities) {
    const pugi::xml_node system = document.child("system");
    for (const pugi::xml_node& node : document.children()) {
      if (!system && node.type() == pugi::node_element)
        return source_.error(source_.lineOf(node),
                             "a topology is a <system>, not <" + inQuotes(node.name()) + ">");
      if (node != system && node.type() == pugi::node_element)
        odd(node, "<" + printable(node.name()) + "> beside the first <system> is left out");
    }
    ECCL_TRY(readSystem(system));
    ECCL_TRY(links_.resolve());
    for (std::string& sentence : source_.notes()) host_.unread.push_back(std::move(sentence));
    makePrintable(host_);
    if (oddities != nullptr) *oddities = source_.notes(true);
    // Nothing should be left for this to find; what it finds has no line.
    if (Status status = validate(host_); !status.ok()) return source_.error(1, status.message());
    return std::move(host_);
  }

 private:
  void odd(const pugi::xml_node& node, const std::string& what) {
    source_.note(source_.lineOf(node), what, true);
  }

  Status readSystem(const pugi::xml_node& node) {
    XmlElement element(source_, node);
    std::optional<int> version;
    if (!node.attribute("version")) return element.error("has no version");
    element.number("version", 1, 2, version);
    if (!version)
      return element.error("version=" + inQuotes(node.attribute("version").value()) + " is neither 1 nor 2");
    host_.name = element.text("name").value_or("");
    std::vector<std::pair<int, pugi::xml_node>> below;  // a CPU, and elements that hold what hangs there
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() == pugi::node_comment) {
        if (auto sentence = unreadFrom(child.value())) host_.unread.push_back(*sentence);
      } else if (isElement(child, "cpu")) {
        ECCL_ASSIGN(const int cpu, readCpu(child));
        if (cpu != Device::kNone) below.emplace_back(cpu, child);
      }
    }
    const bool hasCpus = !below.empty();
    for (const pugi::xml_node& child : node.children("nic")) {
      odd(child, hasCpus ? "<nic> below <system> is taken as below the first <cpu>"
                         : "<nic> below a <system> without <cpu> is left out");
      if (hasCpus) below.emplace_back(0, child);
    }
    // CPU by CPU, as they would be written.
    std::stable_sort(below.begin(), below.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [cpu, from] : below)
      ECCL_TRY(isElement(from, "cpu") ? readChildren(from, cpu, 1) : readNic(from, cpu));
    for (const pugi::xml_node& child : node.children()) {
      if (isElement(child, "pci")) {
        ECCL_TRY(readPci(child, Device::kNone, 1));
      } else if (!isElement(child, "cpu") && !isElement(child, "nic")) {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  /// Its device; kNone if it is left out.
  Result<int> readCpu(const pugi::xml_node& node) {
    XmlElement element(source_, node);
    CpuFacts facts;
    std::optional<int> nodeNumber;
    if (!node.attribute("numaid")) return element.error("has no numaid");
    element.number("numaid", -1, 999'999'999, nodeNumber);
    std::optional<std::vector<int>> cores;
    element.value(
        "affinity", "a mask of CPUs, groups of 8 hexadecimal digits",
        [](const auto& text) { return text.empty() ? std::vector<int>{} : coresFrom(text); }, cores);
    facts.cores = cores.value_or(std::vector<int>{});
    facts.arch = element.text("arch").value_or("");
    facts.vendor = element.text("vendor").value_or("");
    element.number("familyid", 0, INT_MAX, facts.family);
    element.number("modelid", 0, INT_MAX, facts.model);
    element.value("host_hash", "a hexadecimal number", identifierFrom, facts.hostHash);
    if (!host_.devices.empty() && facts.hostHash != host_.devices[0].cpu->hostHash) {
      odd(node, "<cpu> has another host_hash than the first: that host is left out, with all that is below");
      return Device::kNone;
    }
    if (host_.devices.size() == kMaxCpus) return element.error(format("is more than %d", kMaxCpus));
    Device device;
    device.kind = DeviceKind::cpu;
    device.name = "cpu" + std::to_string(nodeNumber.value_or(0));  // NCCL, too, takes what is no number for 0
    if (const int there = links_.find(device.name); there != Device::kNone) {
      odd(node, "<cpu> " + device.name + " is there a second time: what is below is taken as below the first");
      return there;
    }
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
    if (depth > kMaxDepth - 1) return element.error(format("is nested deeper than %d", kMaxDepth - 1));
    Device device;
    device.parent = parent;
    if (!node.attribute("busid")) return element.error("has no busid");
    readPciFacts(element, device.pci.emplace());
    const PciContents contents{!node.child("gpu").empty(), !node.child("nic").empty(),
                               !node.child("pci").empty()};
    device.kind = kindOf(*device.pci, contents);
    std::optional<DeviceKind> kind;
    element.value("kind", "bridge, accelerator, nic, nvswitch or other", pciKindFrom, kind);
    if (kind && *kind != device.kind && (contents.gpu || contents.nic || contents.pci))
      element.odd(format("<pci> is said to be of another kind than what is below it: taken for a %s",
                         nameOf(device.kind)));
    else
      device.kind = kind.value_or(device.kind);
    device.name = element.text("name").value_or(device.pci->busId);
    ECCL_ASSIGN(const int index, add(element, std::move(device)));
    return readPciChildren(node, index, depth);
  }

  static void readPciFacts(XmlElement& element, PciFacts& facts) {
    const std::string busId = element.text("busid").value_or("");
    facts.busId = busIdFrom(busId).value_or(busIdAsNccl(busId));
    if (!busIdFrom(busId))
      element.misread("busid", busId, "a PCI bus id such as 0000:3b:00.0", "for " + facts.busId);
    if (const auto code = element.text("class"); code && !code->empty())  // empty: not known
      element.value("class", "a PCI class such as 0x030200", pciClassFrom, facts.classCode);
    constexpr uint32_t kMaxId = UINT32_MAX;
    element.number("vendor", 0U, kMaxId, facts.vendor);
    element.number("device", 0U, kMaxId, facts.device);
    element.number("subsystem_vendor", 0U, kMaxId, facts.subsystemVendor);
    element.number("subsystem_device", 0U, kMaxId, facts.subsystemDevice);
    readLink(element, "link_speed", "link_width", facts.gigatransfers, facts.width);
    readLink(element, "max_link_speed", "max_link_width", facts.ablestGigatransfers, facts.ablestWidth);
  }

  static void readLink(XmlElement& element, const char* speedKey, const char* widthKey, double& speed,
                       int& width) {
    constexpr double kMinSpeed = 1e-3, kMaxSpeed = 1e6;
    constexpr int kMaxWidth = 64;  // PCI Express ends at 32
    const auto possible = [](std::optional<double> found) {
      return found && (*found == 0 || (*found >= kMinSpeed && *found <= kMaxSpeed));
    };
    if (const auto text = element.text(speedKey)) {
      const auto exactly = gigatransfersFrom(*text), roughly = leadingGigatransfers(*text);
      speed = possible(exactly) ? *exactly : possible(roughly) ? *roughly : 0;
      if (!possible(exactly))
        element.misread(speedKey, *text, "a speed such as 16.0 GT/s PCIe",
                        speed > 0 ? "for " + textOfGigatransfers(speed) : "as unknown");
    }
    std::optional<int> lanes;
    if (const auto text = element.text(widthKey); text && !text->empty())  // NCCL writes "" where it knows none
      element.number(widthKey, 0, kMaxWidth, lanes);
    width = lanes.value_or(0);
  }

  Status readPciChildren(const pugi::xml_node& node, int index, int depth) {
    bool seenGpu = false;
    for (const pugi::xml_node& child : node.children()) {
      const DeviceKind kind = host_.devices[index].kind;
      const bool gpu = isElement(child, "gpu"), nic = isElement(child, "nic"), pci = isElement(child, "pci");
      if (gpu && seenGpu) {
        odd(child, "<pci> has a second <gpu>, which is not kept");
      } else if ((nic && kind != DeviceKind::nic) || (pci && kind != DeviceKind::bridge)) {
        odd(child, format("<%s> is left out, as its <pci> is taken for: %s", child.name(), nameOf(kind)));
      } else if (gpu) {
        seenGpu = true;
        ECCL_TRY(readGpu(child, index));
      } else if (pci) {
        ECCL_TRY(readPci(child, index, depth + 1));
      } else if (nic) {
        ECCL_TRY(readNic(child, index));
      } else if (isElement(child, "pcilink")) {
        ECCL_TRY(links_.read(child, index));
      } else {
        ECCL_TRY(skip(child));
      }
    }
    return {};
  }

  Status readGpu(const pugi::xml_node& node, int index) {
    XmlElement element(source_, node);
    AcceleratorFacts facts;
    element.number("dev", 0, INT_MAX, facts.index);
    element.number("rank", 0, INT_MAX, facts.rank);
    element.number("sm", 0, INT_MAX, facts.computeCapability);
    element.number("arch", INT_MIN, INT_MAX, facts.arch);
    facts.gcn = element.text("gcn").value_or("");
    element.flag("gdr", facts.direct);
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
    Device device;
    device.kind = DeviceKind::port;
    device.parent = parent;
    PortFacts& port = device.port.emplace();
    element.number("dev", 0, INT_MAX, port.index);
    element.number("port", 0, INT_MAX, port.number);
    readSpeed(element, "speed", port.megabits);
    readSpeed(element, "max_speed", port.ablestMegabits);
    element.value("guid", "a hexadecimal number", identifierFrom, port.guid);
    element.value(
        "latency", "a time in microseconds",
        [](std::string_view text) {
          const auto found = realNumber(text);
          return found && *found >= 0 && *found <= 1e9 ? found : std::nullopt;
        },
        port.latency);
    element.number("maxconn", 0, INT_MAX, port.maxConnections);
    element.flag("gdr", port.direct);
    element.flag("coll", port.collective);
    element.number("rail", INT_MIN, INT_MAX, port.rail);
    element.number("plane", INT_MIN, INT_MAX, port.plane);
    element.number("mtu", 0, INT_MAX, port.mtu);
    port.state = element.text("state").value_or("");
    port.layer = element.text("link_layer").value_or("");
    port.interface = element.text("interface").value_or("");
    device.name = element.text("name").value_or("");
    if (device.name.empty() && port.index) device.name = "net" + std::to_string(*port.index);
    for (const pugi::xml_node& child : node.children()) ECCL_TRY(skip(child));
    if (device.name.empty()) {
      odd(node, "<net> has neither a name nor a dev: it is left out");
      return {};
    }
    // NCCL writes an adapter that is not on PCI below each CPU.
    if (const int there = links_.find(device.name);
        host_.devices[parent].kind == DeviceKind::cpu && there != Device::kNone && host_.devices[there].port &&
        host_.devices[there].port->index == port.index &&
        host_.devices[host_.devices[there].parent].kind == DeviceKind::cpu) {
      element.odd("<net> " + inQuotes(device.name) + " is there a second time: taken for the port below " +
                  host_.devices[host_.devices[there].parent].name);
      return {};
    }
    return add(element, std::move(device)).status();
  }

  static void readSpeed(XmlElement& element, const char* key, std::optional<int64_t>& speed) {
    element.number(key, int64_t{-1}, INT64_MAX, speed);
    if (speed == -1) {  // drivers say so where there is no link
      element.note(format("<net> has %s=-1, taken as unknown", key));
      speed.reset();
    }
  }

  /// Its index. What has the name of another device (a hypervisor makes up bus ids, and an adapter's ports may
  /// share its name) is numbered: links mean the first of them, or the only one that is no bridge.
  Result<int> add(const XmlElement& element, Device device) {
    const int index = static_cast<int>(host_.devices.size());
    if (host_.devices.size() == kMaxXmlDevices)
      return element.error(format("is device %zu", kMaxXmlDevices + 1));
    if (device.name.empty()) device.name = "unnamed";
    const std::string name = device.name;
    for (int count = 2; !links_.announce(device, index); ++count) {
      if (count == 2)
        element.odd((device.pci && name == device.pci->busId ? "<pci> has a bus id that was there before: "
                                                             : "the name of another device is numbered: ") +
                    name);
      device.name = name + "#" + std::to_string(std::max(count, uses_[name] + 1));
      uses_[name] = std::max(count, uses_[name] + 1);
    }
    host_.devices.push_back(std::move(device));
    return index;
  }

  /// What no rule is for: text is an error, an element a note, a comment nothing.
  Status skip(const pugi::xml_node& node) {
    if (node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata)
      return source_.error(source_.lineOf(node),
                           "text where an element is expected: " + inQuotes(node.value()));
    if (node.type() == pugi::node_element)
      source_.note(source_.lineOf(node), "<" + std::string(node.parent().name()) + "> has an element " +
                                             inQuotes(node.name()) + ", which is not kept");
    return {};
  }

  XmlSource source_;
  Host host_;
  XmlLinks links_;
  std::unordered_map<std::string, int> uses_;  // of names that several devices have: the last number
};

}  // namespace

Result<Host> parseNcclXml(std::string_view text, const std::string& name, std::vector<std::string>* oddities) {
  const XmlSource source(text.substr(0, kMaxXmlBytes), name);
  if (text.size() > kMaxXmlBytes)
    return source.error(
        1, format("%zu bytes are more than the %zu that a topology may have", text.size(), kMaxXmlBytes));
  if (const size_t nul = text.find('\0'); nul != text.npos)
    return source.error(source.lineAt(static_cast<ptrdiff_t>(nul)), "a byte 0: this is no text");
  pugi::xml_document document;
  const pugi::xml_parse_result result = document.load_buffer(
      text.data(), text.size(), pugi::parse_default | pugi::parse_comments, pugi::encoding_utf8);
  if (!result) return source.error(source.lineAt(result.offset), result.description());
  return Reader(text, name).read(document, oddities);
}

}  // namespace eccl::topology
