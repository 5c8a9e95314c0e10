// NUMA nodes, the PCI tree and PCI links, from /sys and /proc.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <unordered_set>

#include "topology/probe/probe_parts.h"

namespace eccl::topology::probe {
namespace {

constexpr const char* kPciFolder = "/sys/bus/pci/devices";

/// "8.0 GT/s PCIe", of old kernels "8 GT/s"; 0 for "Unknown".
double gigatransfersIn(const std::string& text) {
  double value = 0;
  return std::sscanf(text.c_str(), "%lf GT/s", &value) == 1 && value > 0 ? value : 0;
}

/// Lanes; the kernel writes 0 or 255 where it does not know.
int lanesIn(const std::optional<int64_t>& number) {
  return number && *number > 0 && *number <= 32 ? static_cast<int>(*number) : 0;
}

/// Whether it may be in a Host (see assemble()), by its base class: networks, displays, bridges, serial buses
/// (the first InfiniBand adapters) and processing accelerators. A server has hundreds of others, and each fact
/// costs a file.
bool mayMatter(const PciFacts& facts) {
  constexpr uint32_t kBases[] = {0x02, 0x03, 0x06, 0x0c, 0x12};
  const uint32_t base = facts.classCode.value_or(0) >> 16;
  return std::find(std::begin(kBases), std::end(kBases), base) != std::end(kBases);
}

void set(std::optional<uint32_t>* fact, const std::optional<int64_t>& value) {
  if (value) *fact = static_cast<uint32_t>(*value);
}

/// As NCCL writes architectures. /proc/cpuinfo has no line for it, but lines that only one architecture has.
std::string archIn(const std::string& cpuinfo) {
  if (!fieldOf(cpuinfo, "vendor_id").empty()) {
    return fieldOf(cpuinfo, "vendor_id").rfind("IBM", 0) == 0 ? "s390x" : "x86_64";
  }
  if (!fieldOf(cpuinfo, "CPU implementer").empty()) return "arm64";
  if (fieldOf(cpuinfo, "cpu").rfind("POWER", 0) == 0) return "ppc64";
  return "";
}

}  // namespace

bool isBusId(const std::string& text) {
  const size_t domain = text.find(':');
  if (domain == text.npos || domain < 4 || domain > 8 || text.size() != domain + 8) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char wanted = i == domain || i == domain + 3 ? ':' : i == domain + 6 ? '.' : 0;
    if (wanted != 0 ? text[i] != wanted : std::isxdigit(static_cast<unsigned char>(text[i])) == 0) return false;
  }
  return true;
}

std::vector<std::string> busIdsIn(const std::string& path) {
  std::vector<std::string> found;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '/');) {
    if (isBusId(part)) found.push_back(part);
  }
  return found;
}

int ncclFamily(int64_t linuxFamily) {
  return static_cast<int>(linuxFamily <= 15 ? linuxFamily : 15 + ((linuxFamily - 15) << 4));
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

void readNumaNodes(const SystemFiles& files, Inventory* found) {
  const std::string folder = "/sys/devices/system/node";
  for (const std::string& entry : files.entries(folder)) {
    const std::optional<int64_t> number =
        entry.rfind("node", 0) == 0 ? numberIn(entry.substr(4)) : std::nullopt;
    if (number)
      found->nodes.push_back(
          {static_cast<int>(*number), cpusIn(files.text(folder + "/" + entry + "/cpulist"))});
  }
  if (!found->nodes.empty()) return;
  found->nodes.push_back({0, cpusIn(files.text("/sys/devices/system/cpu/online"))});
  found->unread.push_back(folder +
                          ": no NUMA node to be seen (hidden by a container, or a kernel without NUMA); all"
                          " cores and devices are taken as near each other");
}

void readPciTree(const SystemFiles& files, Inventory* found) {
  std::vector<std::string> names = files.entries(kPciFolder), shapeless;
  std::erase_if(names, [](const std::string& name) { return !isBusId(name); });
  for (const std::string& name : names) {
    const std::string at = kPciFolder + ("/" + name), where = files.resolved(at);
    if (where.ends_with(at.substr(4))) shapeless.push_back(name);
    PciFunction function;
    function.facts.busId = name;
    std::vector<std::string> above = busIdsIn(where);
    if (!above.empty()) above.pop_back();
    // The nearest that is known: captures may lack some.
    while (!above.empty() && !std::binary_search(names.begin(), names.end(), above.back())) above.pop_back();
    if (!above.empty()) function.above = above.back();
    const std::optional<int64_t> node = files.number(at + "/numa_node");
    if (node && *node >= 0) function.node = static_cast<int>(*node);
    found->functions.push_back(std::move(function));
  }
  if (found->functions.empty()) {
    const char* why = files.exists(kPciFolder) ? "holds no device" : "is not there";
    found->unread.push_back(
        format("%s: %s; what hangs on PCI cannot be seen (a container or a virtual machine hides"
               " it, or there is no PCI)",
               kPciFolder, why));
  }
  if (!shapeless.empty())
    found->unread.push_back(
        format("%s: %zu devices (%s, ...) are no links into /sys/devices; what bridges are above"
               " them is unknown",
               kPciFolder, shapeless.size(), shapeless[0].c_str()));
}

void readPciFacts(const SystemFiles& files, Inventory* found) {
  std::unordered_set<std::string> known;
  for (const PciFunction& function : found->functions) known.insert(function.facts.busId);
  for (PciFunction& function : found->functions) {
    PciFacts& facts = function.facts;
    const std::string at = kPciFolder + ("/" + facts.busId) + "/";
    set(&facts.classCode, files.number(at + "class"));
    if (!mayMatter(facts)) continue;
    set(&facts.vendor, files.number(at + "vendor"));
    set(&facts.device, files.number(at + "device"));
    set(&facts.subsystemVendor, files.number(at + "subsystem_vendor"));
    set(&facts.subsystemDevice, files.number(at + "subsystem_device"));
    facts.gigatransfers = gigatransfersIn(files.text(at + "current_link_speed"));
    facts.ablestGigatransfers = gigatransfersIn(files.text(at + "max_link_speed"));
    facts.width = lanesIn(files.number(at + "current_link_width"));
    facts.ablestWidth = lanesIn(files.number(at + "max_link_width"));
    const std::vector<std::string> physical = busIdsIn(files.resolved(at + "physfn"));
    function.isVirtual = !physical.empty() && known.count(physical.back()) != 0;
  }
}

void readCpuModel(const SystemFiles& files, Inventory* found) {
  found->hostName = files.text("/proc/sys/kernel/hostname");
  const std::string info = contentOf(files.path("/proc/cpuinfo")).value_or("");
  if (info.empty()) found->unread.push_back("/proc/cpuinfo: absent or empty; the CPU's model is unknown");
  found->cpu.arch = archIn(info);
  found->cpu.vendor = fieldOf(info, "vendor_id");
  if (const auto family = numberIn(fieldOf(info, "cpu family"))) found->cpu.family = ncclFamily(*family);
  if (const auto model = numberIn(fieldOf(info, "model"))) found->cpu.model = static_cast<int>(*model);
}

}  // namespace eccl::topology::probe
