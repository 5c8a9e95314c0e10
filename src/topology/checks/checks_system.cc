// Checks of what the kernel is set to, and of what this process may do.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "topology/checks/checks_parts.h"
#include "topology/probe/host_summary.h"

namespace eccl::topology::checks {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string pciPath(const std::string& busId) {
  return "/sys/bus/pci/devices/" + busId;
}

uint32_t littleEndian(const std::string& bytes, size_t at, int count) {
  uint32_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

/// The control register of the ACS capability in a function's configuration space; 0 without that capability;
/// nothing if the space cannot be read so far: only root is shown more than its first 64 bytes.
std::optional<uint32_t> acsControl(const std::string& config) {
  constexpr size_t kExtended = 0x100, kWhole = 4096;
  constexpr uint32_t kAcs = 0x000d;
  if (config.size() == 256 && config.find_first_not_of('\0', 64) != config.npos)
    return 0;  // has no extended space
  if (config.size() < kWhole) return std::nullopt;
  size_t at = kExtended;
  // Each capability is four bytes at least: more of them is a loop.
  for (size_t left = (kWhole - kExtended) / 4; left > 0 && at >= kExtended && at + 8 <= config.size(); --left) {
    const uint32_t header = littleEndian(config, at, 4);
    if ((header & 0xffff) == kAcs) return littleEndian(config, at + 6, 2);
    at = header >> 20;  // 0 ends the list
  }
  return 0;
}

/// The lower ports of a switch, which the Host leaves out; its upper port is the device.
std::vector<std::string> lowerPorts(const SystemFiles& files, const std::string& upper) {
  std::vector<std::string> ports;
  for (const std::string& entry : files.entries(pciPath(upper))) {
    if (files.text(pciPath(upper) + "/" + entry + "/class").rfind("0x0604", 0) == 0) ports.push_back(entry);
  }
  return ports;
}

void checkAcs(const Host& host, const SystemFiles& files, std::vector<Finding>* findings) {
  std::vector<std::string> unreadable;
  for (int bridge : host.all(DeviceKind::bridge)) {
    std::vector<std::string> redirecting;
    const std::string& name = host.devices[bridge].name;
    bool unknown = false;
    for (const std::string& port : lowerPorts(files, name)) {
      // P2P request redirect, completion redirect, upstream forwarding.
      constexpr uint32_t kSentUp = 0x04 | 0x08 | 0x10;
      const auto control = acsControl(contentOf(files.path(pciPath(port) + "/config")).value_or(""));
      unknown = unknown || !control;
      if (control.value_or(0) & kSentUp) redirecting.push_back(port);
    }
    if (unknown) unreadable.push_back(name);
    if (redirecting.empty()) continue;
    findings->push_back({Severity::warning, "acs", name,
                         format("ACS on %zu ports of this PCI switch (%s, ...) sends transfers between devices "
                                "below it up to the CPU",
                                redirecting.size(), redirecting[0].c_str()),
                         "Accelerators and adapters below the same switch talk to each other at a fraction of "
                         "its speed, or hang",
                         "Turn ACS off in the firmware, or on each port as root: setpci -s PORT "
                         "ECAP_ACS+6.w=0000. Virtual machines"
                         " that are handed single devices need it on; there, enable ATS instead"});
  }
  for (const std::string& name : unreadable)
    findings->push_back({Severity::note, "acs-unknown", name,
                         "the configuration space of this PCI switch's ports is not readable",
                         "Whether ACS sends transfers between devices below it up to the CPU is unknown",
                         "Run this once as root, or look for 'ACSCtl: ... ReqRedir+' in: lspci -vvv"});
}

bool hasWord(const std::string& text, const std::string& word) {
  std::istringstream words(text);
  for (std::string each; words >> each;) {
    if (each == word) return true;
  }
  return false;
}

/// Why the IOMMU translates the addresses of a device; empty if it does not, or nobody knows.
std::string translates(const SystemFiles& files, const std::string& busId, const std::string& commandLine) {
  const std::string group = pciPath(busId) + "/iommu_group";
  const std::string type = files.text(group + "/type");
  if (!type.empty()) return type == "identity" ? "" : "its IOMMU group is of type " + type;
  if (!files.exists(group) || hasWord(commandLine, "iommu=pt") || hasWord(commandLine, "iommu.passthrough=1"))
    return "";
  for (const char* order : {"intel_iommu=on", "amd_iommu=on"}) {  // what older kernels show no type of
    if (hasWord(commandLine, order))
      return std::string("the kernel was started with ") + order + " and without iommu=pt";
  }
  return "";
}

void checkIommu(const Host& host, const SystemFiles& files, std::vector<Finding>* findings) {
  const std::vector<int> cpus = host.all(DeviceKind::cpu);
  // Where CPU and GPU share addresses (Grace), translation is how it works.
  if (!cpus.empty() && host.devices[cpus[0]].cpu->arch == "arm64") return;
  const std::string commandLine = files.text("/proc/cmdline");
  for (int accelerator : host.all(DeviceKind::accelerator)) {
    const std::string& name = host.devices[accelerator].name;
    const std::string why = translates(files, name, commandLine);
    if (why.empty()) continue;
    findings->push_back(
        {Severity::warning, "iommu", name, "the IOMMU translates this accelerator's addresses: " + why,
         "Transfers between it and other devices go through the CPU's IOMMU: slow, and on some"
         " machines they hang",
         "Start the kernel with iommu=pt, or turn the IOMMU off in the firmware if no virtual machine"
         " needs it"});
  }
}

void checkMemory(const Host& host, const HostSummary& summary, const std::string& status,
                 std::vector<Finding>* findings) {
  const std::vector<int> ports = host.all(DeviceKind::port);
  const bool rdma = std::any_of(ports.begin(), ports.end(), [&](int port) {
    return host.devices[port].name != host.devices[port].port->interface;
  });
  constexpr unsigned long long kLockAtWill = 1ULL << 14;  // CAP_IPC_LOCK: the limit does not hold
  const bool atWill = (std::strtoull(fieldOf(status, "CapEff").c_str(), nullptr, 16) & kLockAtWill) != 0;
  const bool known = std::none_of(summary.unread.begin(), summary.unread.end(), [](const std::string& text) {
    return text.rfind("/proc/self/limits", 0) == 0;
  });
  if (rdma && known && !atWill && summary.memlockBytes < summary.memoryBytes)
    findings->push_back(
        {summary.memlockBytes < 64 * kMiB ? Severity::error : Severity::warning, "memlock", "",
         format("this process may lock %llu MiB of memory, of %llu",
                static_cast<unsigned long long>(summary.memlockBytes / kMiB),
                static_cast<unsigned long long>(summary.memoryBytes / kMiB)),
         "RDMA adapters need buffers locked: registering more than that fails",
         "ulimit -l unlimited; in a service LimitMEMLOCK=infinity, in a container --ulimit memlock=-1"});
  // 64 MiB is what container run times give by default.
  if (summary.shmBytes > 0 && summary.shmBytes <= 64 * kMiB && summary.memoryBytes > 1024 * kMiB)
    findings->push_back(
        {Severity::note, "shm-size", "",
         format("/dev/shm holds %llu MiB, of %llu of memory",
                static_cast<unsigned long long>(summary.shmBytes / kMiB),
                static_cast<unsigned long long>(summary.memoryBytes / kMiB)),
         "ECCL does not need it (its shared memory has no name), but data loaders, NCCL and MPI in the"
         " same container do, and die of it",
         "Start the container with --shm-size=8g or --ipc=host"});
  // With 1 a process may still allow its peers; from 2 on nobody can.
  if (summary.ptraceScope == "2" || summary.ptraceScope == "3")
    findings->push_back(
        {Severity::note, "ptrace-scope", "", "kernel.yama.ptrace_scope is " + summary.ptraceScope,
         "Processes may not read each other's memory (CMA): single copies of buffers that are not"
         " from ecclMemAlloc are not to be had",
         "sysctl kernel.yama.ptrace_scope=1, if that suits the host's rules"});
}

void checkAffinity(const Host& host, const HostSummary& summary, std::vector<Finding>* findings) {
  if (summary.allowedCpus.empty()) return;
  struct Group {
    const char* what;
    std::vector<int> devices;
  };
  for (const Group& group : {Group{"accelerators", host.all(DeviceKind::accelerator)},
                             Group{"network adapters", dataAdapters(host)}}) {
    std::vector<std::string> far;
    bool near = false;
    for (int device : group.devices) {
      const int cpu = host.cpuOf(device);
      if (cpu == Device::kNone || host.devices[cpu].cpu->cores.empty()) continue;
      const std::vector<int>& cores = host.devices[cpu].cpu->cores;
      const bool local = std::any_of(cores.begin(), cores.end(), [&](int core) {
        return std::binary_search(summary.allowedCpus.begin(), summary.allowedCpus.end(), core);
      });
      near = near || local;
      const std::string& name = host.devices[cpu].name;
      if (!local && (far.empty() || far.back() != name)) far.push_back(name);
    }
    // A process that is bound to one of several nodes is usually meant to use what is near that one.
    if (near || far.empty()) continue;
    findings->push_back(
        {Severity::warning, "affinity", far[0],
         format("this process may run on no core of the NUMA nodes that this host's %s are on (%s%s)",
                group.what, far[0].c_str(), far.size() > 1 ? ", ..." : ""),
         "Each transfer to them crosses between NUMA nodes, and so does their completion",
         "Bind the process to cores of that node, or leave it unbound; see its launcher's options and"
         " the container's cpuset"});
  }
}

}  // namespace

void checkPeerToPeer(const Host& host, const SystemFiles& files, std::vector<Finding>* findings) {
  const size_t accelerators = host.all(DeviceKind::accelerator).size();
  if (accelerators == 0 || accelerators + host.all(DeviceKind::nic).size() < 2) return;  // nobody to talk to
  checkAcs(host, files, findings);
  checkIommu(host, files, findings);
}

void checkProcess(const Host& host, const SystemFiles& files, const std::string& root,
                  std::vector<Finding>* findings) {
  HostSources sources;
  sources.root = root;
  sources.addresses = [] { return std::vector<std::pair<std::string, std::string>>(); };  // not needed here
  const HostSummary summary = readHost(sources);
  checkMemory(host, summary, contentOf(files.path("/proc/self/status")).value_or(""), findings);
  checkAffinity(host, summary, findings);
}

}  // namespace eccl::topology::checks
