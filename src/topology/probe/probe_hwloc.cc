#include "topology/probe/probe_hwloc.h"

#include <hwloc.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "topology/probe/probe_parts.h"

namespace eccl::topology {
namespace {

using namespace probe;

/// The environment with some variables more, for as long as it lives; one at a time. hwloc has no other ear for
/// what it is told by this. setenv() would move or shift the array that getenv() of another thread is walking
/// through; this puts a complete one in its place and later the old one back, so that readers see one or the
/// other. Each is kept, as a reader may be in it still: some kilobytes for each probe of a captured machine,
/// once for this one.
class EnvironmentFor {
 public:
  explicit EnvironmentFor(std::vector<std::string> assignments) : held_(mutex()), old_(environ) {
    static auto& kept =
        *new std::vector<std::unique_ptr<Copy>>;  // outlives whoever reads it while the process ends
    for (const auto& copy : kept) {
      if (copy->of != old_ || copy->added != assignments || !sameAsWas(*copy)) continue;
      exchange(copy->all.data());
      return;
    }
    auto copy = std::make_unique<Copy>();
    copy->of = old_;
    copy->added = std::move(assignments);
    for (char** at = old_; at != nullptr && *at != nullptr; ++at) {
      if (!overridden(*at, copy->added)) copy->all.push_back(*at);
      copy->was.push_back(*at);
    }
    for (std::string& assignment : copy->added) copy->all.push_back(assignment.data());
    copy->all.push_back(nullptr);
    exchange(copy->all.data());
    kept.push_back(std::move(copy));
  }
  ~EnvironmentFor() { exchange(old_); }
  EnvironmentFor(const EnvironmentFor&) = delete;
  EnvironmentFor& operator=(const EnvironmentFor&) = delete;

 private:
  struct Copy {
    char** of = nullptr;
    std::vector<char*> was, all;
    std::vector<std::string> added;
  };

  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static void exchange(char** to) { std::atomic_ref(environ).store(to, std::memory_order_release); }
  static bool overridden(const char* variable, const std::vector<std::string>& by) {
    for (const std::string& assignment : by) {
      if (std::strncmp(variable, assignment.c_str(), assignment.find('=') + 1) == 0) return true;
    }
    return false;
  }
  static bool sameAsWas(const Copy& copy) {
    size_t i = 0;
    for (char** at = copy.of; at != nullptr && *at != nullptr; ++at, ++i) {
      if (i >= copy.was.size() || copy.was[i] != *at) return false;
    }
    return i == copy.was.size();
  }

  std::lock_guard<std::mutex> held_;
  char** old_;
};

using PciAttributes = hwloc_obj_attr_u::hwloc_pcidev_attr_s;

struct Destroy {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, Destroy>;

Status failed(const char* what) {
  return Status::error(Code::system, "%s failed: %s", what, std::strerror(errno));
}

/// A loaded topology with all I/O; of an exported file if `xml` is not empty.
Result<Topology> load(const std::string& root, const std::string& xml) {
  std::vector<std::string> orders = {
      // Plugins are loaded before one can say which components are unwanted, and with them OpenCL, X11 and
      // libxml2.
      "HWLOC_PLUGINS_PATH=/nonexistent",
      "HWLOC_HIDE_ERRORS=2",  // what hwloc has to say of strange machines it says to stderr
  };
  if (!root.empty()) orders.push_back("HWLOC_FSROOT=" + root);
  const EnvironmentFor environment(std::move(orders));

  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return failed("hwloc_topology_init");
  Topology topology(made);
  // Where these are no plugins but part of the library. What they know is known better elsewhere (NVML is asked
  // below), or is not worth its price: "x86" binds this thread to each CPU in turn, "pci" wants root.
  for (const char* unwanted : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci", "x86"}) {
    hwloc_topology_set_components(made, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted);
  }
  if (!xml.empty() && hwloc_topology_set_xml(made, xml.c_str()) != 0) return failed("hwloc_topology_set_xml");
  // All cores of the machine, as of all its devices, not those that this process may use.
  if (hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0)
    return failed("hwloc_topology_set_flags");
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(made) != 0) return failed("hwloc_topology_load");
  return topology;
}

std::string busIdOf(const PciAttributes& pci) {
  return format("%04x:%02x:%02x.%01x", static_cast<unsigned>(pci.domain), static_cast<unsigned>(pci.bus),
                static_cast<unsigned>(pci.dev), static_cast<unsigned>(pci.func));
}

/// The PCI side of an object, or nothing: host bridges have none.
const PciAttributes* pciOf(hwloc_obj_t object) {
  if (object->type == HWLOC_OBJ_PCI_DEVICE) return &object->attr->pcidev;
  if (object->type == HWLOC_OBJ_BRIDGE && object->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
    return &object->attr->bridge.upstream.pci;
  return nullptr;
}

std::vector<NumaNode> nodesOf(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    NumaNode node{static_cast<int>(object->os_index), {}};
    for (int cpu = -1; (cpu = hwloc_bitmap_next(object->cpuset, cpu)) >= 0;) node.cpus.push_back(cpu);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

/// The node near an object, if it is one: nodes without cores lie beside others and do not count.
std::optional<int> nodeOf(hwloc_topology_t topology, hwloc_obj_t object, const std::vector<NumaNode>& nodes) {
  const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, object);
  if (near == nullptr || near->nodeset == nullptr) return std::nullopt;
  std::optional<int> found;
  for (const NumaNode& node : nodes) {
    if (node.cpus.empty() || hwloc_bitmap_isset(near->nodeset, static_cast<unsigned>(node.number)) == 0)
      continue;
    if (found) return std::nullopt;
    found = node.number;
  }
  return found;
}

PciFunction functionOf(hwloc_topology_t topology, hwloc_obj_t object, const std::vector<NumaNode>& nodes) {
  const PciAttributes& pci = *pciOf(object);
  PciFunction function;
  function.facts.busId = busIdOf(pci);
  function.node = nodeOf(topology, object, nodes);
  if (object->parent != nullptr && pciOf(object->parent) != nullptr)
    function.above = busIdOf(*pciOf(object->parent));
  function.facts.classCode = static_cast<uint32_t>(pci.class_id) << 8;  // without the programming interface
  function.facts.vendor = pci.vendor_id;
  function.facts.device = pci.device_id;
  function.facts.subsystemVendor = pci.subvendor_id;
  function.facts.subsystemDevice = pci.subdevice_id;
  return function;
}

void readTopology(hwloc_topology_t topology, Inventory* found) {
  found->nodes = nodesOf(topology);
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_BRIDGE, HWLOC_OBJ_PCI_DEVICE}) {
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
      if (pciOf(object) != nullptr) found->functions.push_back(functionOf(topology, object, found->nodes));
    }
  }
}

std::string infoOf(hwloc_obj_t object, const std::string& name) {
  const char* value = object == nullptr ? nullptr : hwloc_obj_get_info_by_name(object, name.c_str());
  return value == nullptr ? "" : value;
}

/// The network interface beside an object, if its PCI device has one only.
std::string interfaceBeside(hwloc_obj_t object) {
  std::string name;
  for (hwloc_obj_t child = object->parent->io_first_child; child != nullptr; child = child->next_sibling) {
    if (child->type != HWLOC_OBJ_OS_DEVICE || child->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK) continue;
    if (!name.empty()) return "";
    name = child->name;
  }
  return name;
}

void addAdapter(hwloc_obj_t object, std::vector<Port>* ports) {
  std::string guid = infoOf(object, "NodeGUID");
  std::erase(guid, ':');
  int count = 0;
  while (!infoOf(object, format("Port%dState", count + 1)).empty()) ++count;
  for (int number = 1; number <= count; ++number) {
    Port port{busIdOf(*pciOf(object->parent)), object->name, {}};
    if (count > 1) port.name += format(":%d", number);
    port.facts.number = number;
    const std::string state = infoOf(object, format("Port%dState", number));  // as sysfs numbers them
    port.facts.state = state == "4"                   ? "up"
                       : state == "1"                 ? "down"
                       : state == "2" || state == "3" ? "init"
                                                      : "unknown";
    if (!guid.empty()) port.facts.guid = std::strtoull(guid.c_str(), nullptr, 16);
    if (count == 1) port.facts.interface = interfaceBeside(object);
    ports->push_back(std::move(port));
  }
}

/// InfiniBand devices, and the interfaces of adapters that have none.
void readPorts(hwloc_topology_t topology, Inventory* found) {
  std::vector<Port> interfaces;
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_osdev(topology, object)) != nullptr;) {
    if (object->parent == nullptr || pciOf(object->parent) == nullptr) continue;
    if (object->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS) addAdapter(object, &found->ports);
    if (object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK) continue;
    Port port{busIdOf(*pciOf(object->parent)), object->name, {}};
    port.facts.interface = object->name;
    interfaces.push_back(std::move(port));
  }
  const size_t adapters = found->ports.size();
  for (Port& interface : interfaces) {
    bool taken = false;
    for (size_t i = 0; i < adapters; ++i) taken = taken || found->ports[i].busId == interface.busId;
    if (!taken) found->ports.push_back(std::move(interface));
  }
}

/// All facts that an exported file holds.
void readExport(hwloc_topology_t topology, Inventory* found) {
  readTopology(topology, found);
  readPorts(topology, found);
  const hwloc_obj_t machine = hwloc_get_root_obj(topology);
  const hwloc_obj_t package = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PACKAGE, nullptr);
  found->hostName = infoOf(machine, "HostName");
  found->cpu.arch = infoOf(machine, "Architecture");
  found->cpu.vendor = infoOf(package, "CPUVendor");
  if (const auto family = numberIn(infoOf(package, "CPUFamilyNumber"))) found->cpu.family = ncclFamily(*family);
  if (const auto model = numberIn(infoOf(package, "CPUModelNumber")))
    found->cpu.model = static_cast<int>(*model);
}

}  // namespace

bool haveHwloc() {
  return true;
}

Status hwlocStructure(const std::string& root, Inventory* found) {
  const Result<Topology> topology = load(root, "");
  if (!topology.ok()) return Status::error(Code::system, "hwloc: %s", topology.status().message().c_str());
  readTopology(topology->get(), found);
  return {};
}

Host probeHwlocXml(const std::string& path) {
  Inventory found;
  if (const Result<Topology> topology = load("", path); topology.ok()) {
    readExport(topology->get(), &found);
  } else {
    found.unread.push_back(path + ": " + topology.status().message());
  }
  return assemble(std::move(found));
}

}  // namespace eccl::topology
