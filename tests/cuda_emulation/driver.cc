// Devices, contexts, memory and modules; and how functions are found.
#include <cstdio>
#include <cstring>

#include "cuda_emulation/calls.h"
#include "runtime/cuda/lanes/block_program.h"

namespace eccl::cuda_emulation {
namespace {

ContextOf* contextOf(int ordinal) {
  static ContextOf* const contexts = [] {
    auto* const made = new ContextOf[kDevices];
    for (int i = 0; i < kDevices; ++i) made[i].ordinal = i;
    return made;
  }();
  return contexts + ordinal;
}

std::vector<Context>& contexts() {
  static thread_local std::vector<Context> stack;
  return stack;
}

}  // namespace

Context current() {
  return contexts().empty() ? nullptr : contexts().back();
}

DriverCode begin(const char* function) {
  if (inHostFunction()) return violation(kNotPermitted, "%s is called in a host function", function);
  if (control().calls++ != control().failAt) return kSuccess;
  std::fprintf(stderr, "emulated CUDA: %s fails, as it was told to\n", function);
  return kIllegalAddress;
}

std::mutex& driverLock() {
  static std::mutex* const made = new std::mutex;
  return *made;
}

DriverCode cuInit(unsigned) {
  BEGIN();
  return kSuccess;
}
DriverCode cuDriverGetVersion(int* version) {
  BEGIN();
  *version = control().version;
  return kSuccess;
}
DriverCode cuGetErrorName(DriverCode code, const char** name) {
  *name = code == kIllegalAddress   ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == kInvalidValue   ? "CUDA_ERROR_INVALID_VALUE"
          : code == kInvalidHandle  ? "CUDA_ERROR_INVALID_HANDLE"
          : code == kOutOfMemory    ? "CUDA_ERROR_OUT_OF_MEMORY"
          : code == kNoDevice       ? "CUDA_ERROR_NO_DEVICE"
          : code == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
                                    : "CUDA_ERROR_UNKNOWN";
  return kSuccess;
}
DriverCode cuGetErrorString(DriverCode, const char** text) {
  *text = "of the emulated driver";
  return kSuccess;
}
DriverCode cuDeviceGetCount(int* count) {
  BEGIN();
  *count = kDevices;
  return kSuccess;
}
DriverCode cuDeviceGet(Device* device, int ordinal) {
  BEGIN();
  NEED(ordinal >= 0 && ordinal < kDevices, kInvalidDevice, "device %d", ordinal);
  *device = ordinal;
  return kSuccess;
}
DriverCode cuDeviceGetName(char* name, int length, Device device) {
  BEGIN();
  std::snprintf(name, static_cast<size_t>(length), "emulated device %d", device);
  return kSuccess;
}
DriverCode cuDeviceGetUuid(Uuid* uuid, Device device) {
  BEGIN();
  *uuid = {"emulated"};
  uuid->bytes[15] = static_cast<char>(device);
  return kSuccess;
}
DriverCode cuDeviceGetPCIBusId(char* text, int length, Device device) {
  BEGIN();
  std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", 0xa0 + device);
  return kSuccess;
}
DriverCode cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device) {
  BEGIN();
  switch (attribute) {
    case kMultiprocessors:
      *value = kRoom / static_cast<int>(lanes::kBlocksOfMultiprocessor);
      return kSuccess;
    case kCanUseStreamMemoryOperations64:
      *value = 1;
      return kSuccess;
    case kCanMapMemory:
    case kCanExportDescriptors:
    case kCanMapForRdma:
      *value = control().maps;
      return kSuccess;
    case kCanExportDmabufs:
      *value = control().dmabufs;
      return kSuccess;
    case kComputeCapabilityMajor:
      *value = 9;
      return kSuccess;
    case kUsesHostPageTables:
      *value = 0;
      return kSuccess;
    case kRdmaWritesOrdering:
      *value = control().rdmaOrdering;
      return kSuccess;
    default:
      return violation(kInvalidValue, "device attribute %d", attribute);
  }
}
DriverCode cuDevicePrimaryCtxRetain(Context* context, Device device) {
  BEGIN();
  *context = contextOf(device);
  return kSuccess;
}
DriverCode cuCtxGetCurrent(Context* context) {
  BEGIN();
  *context = current();
  return kSuccess;
}
DriverCode cuCtxGetDevice(Device* device) {
  BEGIN();
  if (current() == nullptr) return kInvalidContext;
  *device = current()->ordinal;
  return kSuccess;
}
DriverCode cuCtxSetCurrent(Context context) {
  BEGIN();
  if (!contexts().empty()) contexts().pop_back();
  if (context != nullptr) contexts().push_back(context);
  return kSuccess;
}
DriverCode cuCtxPushCurrent(Context context) {
  BEGIN();
  contexts().push_back(context);
  return kSuccess;
}
DriverCode cuCtxPopCurrent(Context* context) {
  // Never made to fail: what is pushed is popped.
  NEED(!contexts().empty(), kInvalidContext, "cuCtxPopCurrent without a current context");
  *context = current();
  contexts().pop_back();
  return kSuccess;
}
DriverCode cuPointerGetAttributes(unsigned number, PointerAttribute* attributes, void** values,
                                  Address pointer) {
  BEGIN();
  const Memory::Block* const block = Memory::get().find(pointer);
  for (unsigned i = 0; i < number; ++i) {
    const int value = block == nullptr                  ? 0
                      : attributes[i] == kMemoryType    ? static_cast<int>(block->type)
                      : attributes[i] == kDeviceOrdinal ? block->ordinal
                                                        : 0;
    std::memcpy(values[i], &value, sizeof value);
  }
  return kSuccess;
}
DriverCode cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  BEGIN();
  WAITS();
  NEED(current() != nullptr, kInvalidContext, "cuMemHostAlloc without a current context");
  *memory = reinterpret_cast<void*>(Memory::get().allocate(kHostMemory, current()->ordinal, bytes));
  return *memory != nullptr ? kSuccess : kOutOfMemory;
}
DriverCode cuMemHostGetDevicePointer(Address* address, void* memory, unsigned) {
  BEGIN();
  *address = reinterpret_cast<Address>(memory);
  return Memory::get().at(*address, 1, __func__) != nullptr ? kSuccess : kInvalidValue;
}
DriverCode cuMemAlloc(Address* address, size_t bytes) {
  BEGIN();
  WAITS();
  NEED(current() != nullptr, kInvalidContext, "cuMemAlloc without a current context");
  *address = Memory::get().allocate(kDeviceMemory, current()->ordinal, bytes);
  return *address != 0 ? kSuccess : kOutOfMemory;
}
DriverCode cuMemFree(Address address) {
  BEGIN();
  WAITS();
  Stream::awaitAll();
  return Memory::get().free(address, kDeviceMemory);
}
DriverCode cuMemFreeHost(void* memory) {
  BEGIN();
  WAITS();
  Stream::awaitAll();
  return Memory::get().free(reinterpret_cast<Address>(memory), kHostMemory);
}
DriverCode cuMemGetAddressRange(Address* first, size_t* bytes, Address address) {
  BEGIN();
  return Memory::get().rangeOf(address, first, bytes);
}
DriverCode cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  BEGIN();
  WAITS();
  return control().lends == 0 ? kNotSupported : Memory::get().lend(address, handle);
}
DriverCode cuIpcOpenMemHandle(Address* address, IpcHandle handle, unsigned flags) {
  BEGIN();
  WAITS();
  NEED(current() != nullptr, kInvalidContext, "cuIpcOpenMemHandle without a current context");
  NEED(flags == kLazyPeerAccess, kInvalidValue, "cuIpcOpenMemHandle has one flag, and it has to be given");
  return Memory::get().borrow(handle, current()->ordinal, address);
}
DriverCode cuMemcpy(Address to, Address from, size_t bytes) {
  BEGIN();
  WAITS();
  const auto place = [&](Address address) {  // ordinary host memory will do
    return Memory::get().knows(address) ? Memory::get().at(address, bytes, "cuMemcpy")
                                        : reinterpret_cast<char*>(address);
  };
  char *const destination = place(to), *const source = place(from);
  if (destination == nullptr || source == nullptr) return kInvalidValue;
  std::memcpy(destination, source, bytes);
  return kSuccess;
}
DriverCode cuDeviceCanAccessPeer(int* can, Device, Device) {
  BEGIN();
  *can = control().peersReach;
  return kSuccess;
}
DriverCode cuCtxEnablePeerAccess(Context peer, unsigned) {
  BEGIN();
  WAITS();
  NEED(current() != nullptr && peer != current(), kInvalidContext,
       "cuCtxEnablePeerAccess to itself, or without a context");
  return kSuccess;
}
DriverCode cuModuleLoadData(Module* module, const void*) {
  BEGIN();
  WAITS();
  *module = reinterpret_cast<Module>(contextOf(0));
  return kSuccess;
}
DriverCode cuModuleGetFunction(Function* function, Module, const char* name) {
  BEGIN();
  *function = kernelOf(name);
  NEED(*function != nullptr, kNotFound, "there is no kernel %s", name);
  return kSuccess;
}

extern "C" __attribute__((visibility("default"))) DriverCode cuGetProcAddress_v2(const char* name,
                                                                                 void** function, int, uint64_t,
                                                                                 int*) {
#define FOUND(its, parameters)                \
  if (std::strcmp(name, #its) == 0) {         \
    *function = reinterpret_cast<void*>(its); \
    return kSuccess;                          \
  }
  ECCL_CUDA_FUNCTIONS(FOUND)
  ECCL_CUDA_TEST_FUNCTIONS(FOUND)
  *function = nullptr;
  return violation(kNotFound, "the function %s is not emulated", name);
}

/// What PyTorch looks up by dlsym().
extern "C" __attribute__((visibility("default"))) DriverCode cuDevicePrimaryCtxGetState(Device, unsigned* flags,
                                                                                        int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}

extern "C" __attribute__((visibility("default"))) Control* cuEmulationControl() {
  return &control();
}

}  // namespace eccl::cuda_emulation
