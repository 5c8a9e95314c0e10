// GPUs and NVLinks, as NVIDIA's driver tells them through NVML. The library is there where the driver is, so it
// is loaded at run time, and what is used of it is declared here.
//
// Source of the ABI: nvml.h of the CUDA toolkit 12, "NVML API Reference Guide". The functions with a number at
// their end are frozen by it: a change gets a new number and the old function stays.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>

#include "topology/probe/probe_parts.h"

namespace eccl::topology::probe {
namespace {

using NvmlReturn = int;  // nvmlReturn_t
constexpr NvmlReturn kSuccess = 0;
using NvmlDevice = struct NvmlDeviceTag*;  // nvmlDevice_t, opaque

/// nvmlPciInfo_t of nvmlDeviceGetPciInfo_v3 and nvmlDeviceGetNvLinkRemotePciInfo_v2.
struct NvmlPciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

constexpr unsigned kMaxNvLinks = 18;  // NVML_NVLINK_MAX_LINKS
constexpr int kLinkActive = 1;        // NVML_FEATURE_ENABLED

enum class RemoteType : int { gpu = 0, npu = 1, nvSwitch = 2, unknown = 255 };  // nvmlIntNvLinkDeviceType_t

/// The functions, each null where the library lacks it.
struct Nvml {
  NvmlReturn (*init)() = nullptr;
  NvmlReturn (*shutdown)() = nullptr;
  const char* (*errorString)(NvmlReturn) = nullptr;
  NvmlReturn (*count)(unsigned*) = nullptr;
  NvmlReturn (*handleByIndex)(unsigned, NvmlDevice*) = nullptr;
  NvmlReturn (*pciInfo)(NvmlDevice, NvmlPciInfo*) = nullptr;
  NvmlReturn (*computeCapability)(NvmlDevice, int* major, int* minor) = nullptr;
  NvmlReturn (*linkState)(NvmlDevice, unsigned link, int* state) = nullptr;
  NvmlReturn (*linkRemotePci)(NvmlDevice, unsigned link, NvmlPciInfo*) = nullptr;
  NvmlReturn (*linkRemoteType)(NvmlDevice, unsigned link, int* type) = nullptr;

  std::string reason(NvmlReturn code) const {
    const char* text = errorString == nullptr ? nullptr : errorString(code);
    return format("%s (%d)", text == nullptr ? "error" : text, code);
  }
};

/// The library, open, and NVML initialised, as long as it lives.
class Library {
 public:
  explicit Library(const std::string& name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      const char* why = dlerror();
      failure_ = why == nullptr ? "cannot be loaded" : why;
      return;
    }
    bind("nvmlInit_v2", &nvml_.init);
    bind("nvmlShutdown", &nvml_.shutdown);
    bind("nvmlErrorString", &nvml_.errorString);
    bind("nvmlDeviceGetCount_v2", &nvml_.count);
    bind("nvmlDeviceGetHandleByIndex_v2", &nvml_.handleByIndex);
    bind("nvmlDeviceGetPciInfo_v3", &nvml_.pciInfo);
    bind("nvmlDeviceGetCudaComputeCapability", &nvml_.computeCapability);
    bind("nvmlDeviceGetNvLinkState", &nvml_.linkState);
    bind("nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml_.linkRemotePci);
    bind("nvmlDeviceGetNvLinkRemoteDeviceType", &nvml_.linkRemoteType);
    if (nvml_.init == nullptr || nvml_.shutdown == nullptr || nvml_.count == nullptr ||
        nvml_.handleByIndex == nullptr || nvml_.pciInfo == nullptr) {
      failure_ = "lacks functions; a driver older than 2017";
      return;
    }
    const NvmlReturn code = nvml_.init();
    initialised_ = code == kSuccess;
    if (!initialised_) failure_ = "nvmlInit: " + nvml_.reason(code);
  }
  ~Library() {
    if (initialised_) nvml_.shutdown();
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Nvml& operator*() const { return nvml_; }
  const std::string& failure() const { return failure_; }
  bool loaded() const { return handle_ != nullptr; }

 private:
  template <class Function>
  void bind(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(handle_, name));
  }

  void* handle_;
  Nvml nvml_;
  bool initialised_ = false;
  std::string failure_;
};

/// As sysfs writes it: NVML's text has eight digits of domain, in capitals.
std::string busIdOf(const NvmlPciInfo& pci) {
  return format("%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
}

class Reader {
 public:
  Reader(const Nvml& nvml, Host* host) : nvml_(nvml), host_(*host) {}

  void read() {
    unsigned count = 0;
    if (const NvmlReturn code = nvml_.count(&count); code != kSuccess)
      return host_.unread.push_back("NVML: the number of GPUs: " + nvml_.reason(code));
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i) readGpu(i, &gpus);
    if (nvml_.linkState == nullptr || nvml_.linkRemotePci == nullptr) {
      host_.unread.push_back("NVML: a driver too old to be asked about NVLinks");
      return;
    }
    for (const Gpu& gpu : gpus) readLinks(gpu);
    for (const auto& [ends, links] : links_) {
      FabricLink link;
      link.from = ends.first;
      link.to = ends.second;
      link.count = links;
      host_.fabric.push_back(link);
    }
  }

 private:
  struct Gpu {
    NvmlDevice handle;
    int device;
  };

  void readGpu(unsigned index, std::vector<Gpu>* gpus) {
    NvmlDevice handle = nullptr;
    NvmlPciInfo pci{};
    NvmlReturn code = nvml_.handleByIndex(index, &handle);
    if (code == kSuccess) code = nvml_.pciInfo(handle, &pci);
    if (code != kSuccess)
      return host_.unread.push_back(format("NVML: GPU %u: %s", index, nvml_.reason(code).c_str()));
    const int at = deviceAt(busIdOf(pci), pci);
    if (at == Device::kNone) return;
    AcceleratorFacts facts;
    facts.index = static_cast<int>(index);
    int major = 0, minor = 0;
    if (nvml_.computeCapability != nullptr && nvml_.computeCapability(handle, &major, &minor) == kSuccess)
      facts.computeCapability = major * 10 + minor;
    host_.devices[at].accelerator = facts;
    gpus->push_back({handle, at});
  }

  /// The accelerator of that bus id. The driver sees what a container may hide in /sys.
  int deviceAt(const std::string& busId, const NvmlPciInfo& pci) {
    const int known = host_.find(busId);
    if (known != Device::kNone) {
      if (host_.devices[known].kind == DeviceKind::accelerator) return known;
      host_.unread.push_back("NVML: " + busId + " is a GPU to the driver but " +
                             nameOf(host_.devices[known].kind) + " on PCI; left out");
      return Device::kNone;
    }
    Device device;
    device.kind = DeviceKind::accelerator;
    device.name = busId;
    device.pci.emplace();
    device.pci->busId = busId;
    device.pci->vendor = pci.pciDeviceId & 0xffff;  // vendor in the lower half
    device.pci->device = pci.pciDeviceId >> 16;
    const std::vector<int> cpus = host_.all(DeviceKind::cpu);
    if (cpus.size() == 1) device.parent = cpus[0];
    host_.devices.push_back(std::move(device));
    host_.unread.push_back(busId +
                           ": a GPU to the driver that is not to be seen on PCI; what it hangs below is"
                           " unknown");
    return static_cast<int>(host_.devices.size()) - 1;
  }

  void readLinks(const Gpu& gpu) {
    for (unsigned link = 0; link < kMaxNvLinks; ++link) {
      int state = 0;
      // Fails for links that this model has not got.
      if (nvml_.linkState(gpu.handle, link, &state) != kSuccess || state != kLinkActive) continue;
      NvmlPciInfo pci{};
      const bool placed = nvml_.linkRemotePci(gpu.handle, link, &pci) == kSuccess;
      int type = static_cast<int>(RemoteType::unknown);
      if (nvml_.linkRemoteType != nullptr && nvml_.linkRemoteType(gpu.handle, link, &type) != kSuccess)
        type = static_cast<int>(RemoteType::unknown);
      const int remote = remoteOf(gpu, static_cast<RemoteType>(type), placed ? busIdOf(pci) : "");
      if (remote == Device::kNone) {
        host_.unread.push_back(format("%s: NVLink %u is up, but the driver does not tell where it leads",
                                      host_.devices[gpu.device].name.c_str(), link));
        continue;
      }
      ++links_[{gpu.device, remote}];
      // Another GPU that the driver shows tells its end itself; switches, CPUs and others' GPUs are not asked.
      if (!host_.devices[remote].accelerator) ++links_[{remote, gpu.device}];
    }
  }

  int remoteOf(const Gpu& gpu, RemoteType type, const std::string& busId) {
    const int known = busId.empty() ? Device::kNone : host_.find(busId);
    const bool usable = known != Device::kNone && known != gpu.device &&
                        (host_.devices[known].kind == DeviceKind::accelerator ||
                         host_.devices[known].kind == DeviceKind::nvSwitch);
    if (usable) return known;
    if (type == RemoteType::nvSwitch) return hiddenSwitch();
    if (type == RemoteType::npu) return host_.cpuOf(gpu.device);  // POWER9: the CPU that the GPU hangs on
    return Device::kNone;
  }

  /// Virtual machines see the links but not the switches. Each GPU has links to each switch, so that one stands
  /// for all of them.
  int hiddenSwitch() {
    constexpr const char* kName = "nvswitch0";
    if (const int known = host_.find(kName); known != Device::kNone) return known;
    Device device;
    device.kind = DeviceKind::nvSwitch;
    device.name = kName;
    host_.devices.push_back(std::move(device));
    host_.unread.push_back("nvswitch0: stands for NVSwitches that are not to be seen on PCI, however many");
    return static_cast<int>(host_.devices.size()) - 1;
  }

  const Nvml& nvml_;
  Host& host_;
  std::map<std::pair<int, int>, int> links_;  // from, to -> how many
};

bool isNvidia(const Device& device) {
  return device.kind == DeviceKind::accelerator && device.pci->vendor == 0x10de;
}

}  // namespace

void addNvml(const std::string& library, Host* host) {
  const bool expected = std::any_of(host->devices.begin(), host->devices.end(), isNvidia);
  const Library nvml(library);
  if (!nvml.failure().empty()) {
    // A machine without GPUs has no driver, and nothing is missing.
    if (expected || nvml.loaded())
      host->unread.push_back("NVML: " + nvml.failure() +
                             "; GPUs' numbers, compute capabilities and NVLinks are unknown");
    return;
  }
  Reader(*nvml, host).read();
  std::vector<std::string> unknown;
  for (const Device& device : host->devices) {
    if (isNvidia(device) && !device.accelerator) unknown.push_back(device.name);
  }
  if (!unknown.empty())
    host->unread.push_back(joined(unknown) + ": on PCI, but not among the GPUs that the driver shows here");
}

}  // namespace eccl::topology::probe
