// NVML's functions, as the driver has them, answering what the file that ECCL_TESTS_NVML names says:
//   init <code>                              nvmlInit fails with it
//   gpu <domain> <bus> <device> <cc>         GPUs, in order; cc such as 90
//   link <gpu> <link> <state> <type> <bus>   bus: of the other end (domain 0, device 0), or -1: not told
// Declared anew rather than with the sources' types: that both mean the same is what the test is about.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Link {
  unsigned gpu, link;
  int state, type, bus;
};
struct Gpu {
  unsigned domain, bus, device;
  int capability;
};
struct Machine {
  int initCode = 0, open = 0;
  std::vector<Gpu> gpus;
  std::vector<Link> links;
};
Machine machine;

constexpr int kInvalidArgument = 2, kNotSupported = 3, kUninitialized = 1;

struct PciInfo {  // nvmlPciInfo_t
  char busIdLegacy[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pciDeviceId;
  unsigned int pciSubSystemId;
  char busId[32];
};

void fill(PciInfo* info, unsigned domain, unsigned bus, unsigned device) {
  std::memset(info, 0xff, sizeof *info);  // what is not set below is not to be read
  info->domain = domain;
  info->bus = bus;
  info->device = device;
  info->pciDeviceId = 0x233010deU;
  std::snprintf(info->busId, sizeof info->busId, "%08X:%02X:%02X.0", domain, bus, device);
}

/// Handles are the GPUs' numbers, from 1.
const Link* find(void* device, unsigned link) {
  const auto gpu = reinterpret_cast<size_t>(device) - 1;
  for (const Link& each : machine.links) {
    if (each.gpu == gpu && each.link == link) return &each;
  }
  return nullptr;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  machine = {};
  std::ifstream in(std::getenv("ECCL_TESTS_NVML") == nullptr ? "" : std::getenv("ECCL_TESTS_NVML"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "init") words >> machine.initCode;
    if (what == "gpu") {
      Gpu gpu{};
      words >> std::hex >> gpu.domain >> gpu.bus >> gpu.device >> std::dec >> gpu.capability;
      machine.gpus.push_back(gpu);
    }
    if (what == "link") {
      Link link{};
      words >> link.gpu >> link.link >> link.state >> link.type >> link.bus;
      machine.links.push_back(link);
    }
  }
  if (machine.initCode == 0) ++machine.open;
  return machine.initCode;
}

int nvmlShutdown() {
  if (machine.open == 0) return kUninitialized;
  --machine.open;
  return 0;
}

const char* nvmlErrorString(int code) {
  return code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  if (machine.open == 0) return kUninitialized;
  *count = static_cast<unsigned>(machine.gpus.size());
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= machine.gpus.size()) return kInvalidArgument;
  *device = reinterpret_cast<void*>(static_cast<size_t>(index) + 1);
  return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  const Gpu& gpu = machine.gpus.at(reinterpret_cast<size_t>(device) - 1);
  fill(info, gpu.domain, gpu.bus, gpu.device);
  return 0;
}

int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  const Gpu& gpu = machine.gpus.at(reinterpret_cast<size_t>(device) - 1);
  *major = gpu.capability / 10;
  *minor = gpu.capability % 10;
  return 0;
}

int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* state) {
  const Link* found = find(device, link);
  if (found == nullptr) return kInvalidArgument;
  *state = found->state;
  return 0;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* info) {
  const Link* found = find(device, link);
  if (found == nullptr || found->bus < 0) return kNotSupported;
  fill(info, 0, static_cast<unsigned>(found->bus), 0);
  return 0;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  const Link* found = find(device, link);
  if (found == nullptr) return kNotSupported;
  *type = found->type;
  return 0;
}

}  // extern "C"
