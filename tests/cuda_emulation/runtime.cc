// Devices, memory, and what has no better place.
#include "cuda_emulation/runtime.h"

#include <cstdio>
#include <cstring>
#include <utility>

extern "C" eccl::runtime::cuda::DriverCode cuGetProcAddress_v2(const char* name, void** function, int, uint64_t,
                                                               int*);

namespace eccl::cuda_emulation {
namespace {

constexpr int kVersion = 13000;
thread_local int device = 0;
thread_local bool entered_ = false;

}  // namespace

const DriverTable& driverTable() {
  static const DriverTable* const made = [] {
    auto* const table = new DriverTable;
#define FIND(name, parameters) \
  cuGetProcAddress_v2(#name, reinterpret_cast<void**>(&table->name), kOldestDriver, kLegacyStreams, nullptr);
    ECCL_CUDA_FUNCTIONS(FIND)
    ECCL_CUDA_TEST_FUNCTIONS(FIND)
#undef FIND
    return table;
  }();
  return *made;
}

int currentDevice() {
  return device;
}

cudaError_t setDevice(int ordinal) {
  const DriverTable& driver = driverTable();
  int devices = 0;
  driver.cuDeviceGetCount(&devices);
  if (ordinal < 0 || ordinal >= devices) return result(kInvalidDevice);
  Context context = nullptr;
  driver.cuDevicePrimaryCtxRetain(&context, ordinal);
  device = ordinal;
  entered_ = true;
  return result(driver.cuCtxSetCurrent(context));
}

const DriverTable& entered() {
  if (!entered_) setDevice(device);
  return driverTable();
}

cudaError_t& lastError() {
  static thread_local cudaError_t last = cudaSuccess;
  return last;
}

cudaError_t result(DriverCode code) {
  const auto error = static_cast<cudaError_t>(code);
  if (error != cudaSuccess && error != cudaErrorNotReady) lastError() = error;
  return error;
}

extern "C" int cudartUnimplemented(const char* name) {
  std::fprintf(stderr, "emulated CUDA: the runtime's function %s is not emulated\n", name);
  return result(kNotSupported);
}

CUDART cudaError_t cudaGetLastError() {
  return std::exchange(lastError(), cudaSuccess);
}
CUDART cudaError_t cudaPeekAtLastError() {
  return lastError();
}
CUDART const char* cudaGetErrorName(cudaError_t error) {
  const char* name = "";
  driverTable().cuGetErrorName(static_cast<DriverCode>(error), &name);
  return name;
}
CUDART const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : cudaGetErrorName(error);
}
CUDART cudaError_t cudaDriverGetVersion(int* version) {
  return *version = kVersion, cudaSuccess;
}
CUDART cudaError_t cudaRuntimeGetVersion(int* version) {
  return *version = kVersion, cudaSuccess;
}

CUDART cudaError_t cudaGetDeviceCount(int* count) {
  return result(driverTable().cuDeviceGetCount(count));
}
CUDART cudaError_t cudaGetDevice(int* ordinal) {
  return *ordinal = currentDevice(), cudaSuccess;
}
CUDART cudaError_t cudaSetDevice(int ordinal) {
  return setDevice(ordinal);
}
/// An imaginary device that no kernel is compiled for: whatever a program wants of it, it is not fast.
CUDART cudaError_t cudaGetDeviceProperties(cudaDeviceProp* its, int ordinal) {
  *its = {};
  driverTable().cuDeviceGetName(its->name, sizeof its->name, ordinal);
  its->uuid.bytes[15] = static_cast<char>(ordinal);
  its->totalGlobalMem = size_t{4} << 30;
  its->major = 9;
  its->warpSize = 32;
  its->multiProcessorCount = 12;
  its->maxThreadsPerBlock = 1024;
  its->maxThreadsPerMultiProcessor = 2048;
  its->maxThreadsDim[0] = its->maxThreadsDim[1] = 1024;
  its->maxThreadsDim[2] = 64;
  its->maxGridSize[0] = INT32_MAX;
  its->maxGridSize[1] = its->maxGridSize[2] = 65535;
  its->sharedMemPerBlock = 48 << 10;
  its->sharedMemPerBlockOptin = 227 << 10;
  its->sharedMemPerMultiprocessor = 228 << 10;
  its->regsPerBlock = its->regsPerMultiprocessor = 65536;
  its->l2CacheSize = 1 << 20;
  its->unifiedAddressing = 1;
  its->pciBusID = ordinal + 1;
  return cudaSuccess;
}
CUDART cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int ordinal) {
  cudaDeviceProp its;
  cudaGetDeviceProperties(&its, ordinal);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = its.major;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = its.multiProcessorCount;
      break;
    case cudaDevAttrWarpSize:
      *value = its.warpSize;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = its.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(its.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrPciBusId:
      *value = its.pciBusID;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
CUDART cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int ordinal) {
  std::snprintf(text, static_cast<size_t>(length), "0000:%02x:00.0", ordinal + 1);
  return cudaSuccess;
}
CUDART cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}
CUDART cudaError_t cudaDeviceCanAccessPeer(int* can, int ordinal, int peer) {
  return result(driverTable().cuDeviceCanAccessPeer(can, ordinal, peer));
}
CUDART cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  Context context = nullptr;
  driverTable().cuDevicePrimaryCtxRetain(&context, peer);
  return result(entered().cuCtxEnablePeerAccess(context, flags));
}
/// What threads of the library have there is not destroyed.
CUDART cudaError_t cudaDeviceReset() {
  return result(entered().cuCtxSynchronize());
}
CUDART cudaError_t cudaDeviceSynchronize() {
  return result(entered().cuCtxSynchronize());
}

CUDART cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return result(entered().cuMemAlloc(reinterpret_cast<Address*>(pointer), bytes));
}
CUDART cudaError_t cudaFree(void* pointer) {
  return pointer == nullptr ? cudaSuccess : result(entered().cuMemFree(address(pointer)));
}
CUDART cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  return result(entered().cuMemHostAlloc(pointer, bytes, flags));
}
CUDART cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}
CUDART cudaError_t cudaFreeHost(void* pointer) {
  return pointer == nullptr ? cudaSuccess : result(entered().cuMemFreeHost(pointer));
}
CUDART cudaError_t cudaMemGetInfo(size_t* free, size_t* all) {
  *all = size_t{4} << 30;
  *free = size_t{3} << 30;
  return cudaSuccess;
}
CUDART cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* its, const void* pointer) {
  PointerAttribute attributes[] = {kMemoryType, kDeviceOrdinal};
  unsigned type = 0;
  int ordinal = 0;
  void* values[] = {&type, &ordinal};
  const DriverCode code = entered().cuPointerGetAttributes(2, attributes, values, address(pointer));
  *its = {};
  its->type = type == kDeviceMemory ? cudaMemoryTypeDevice
              : type == kHostMemory ? cudaMemoryTypeHost
                                    : cudaMemoryTypeUnregistered;
  its->device = type == 0 ? cudaInvalidDeviceId : ordinal;
  if (type != 0) its->devicePointer = const_cast<void*>(pointer);
  if (type == kHostMemory) its->hostPointer = const_cast<void*>(pointer);
  return result(code);
}

/// No function of the driver is given to programs: they do without, as over a driver that is too old.
CUDART cudaError_t cudaGetDriverEntryPointByVersion(const char*, void** function, unsigned, unsigned long long,
                                                    cudaDriverEntryPointQueryResult* found) {
  *function = nullptr;
  if (found != nullptr) *found = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace eccl::cuda_emulation
