// The functions, and how they are found.
#include <cstdio>
#include <cstring>

#include "cuda_emulation/emulation.h"

namespace eccl::runtime::cuda {
struct EventOf {
  std::shared_ptr<eccl::cuda_emulation::Stream> stream;
  uint64_t count = 0;
};
}  // namespace eccl::runtime::cuda

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
Context current() {
  return contexts().empty() ? nullptr : contexts().back();
}

/// What every function does first: may be made to fail, and is forbidden in host functions.
DriverCode begin(const char* function) {
  if (inHostFunction()) return violation(kNotPermitted, "%s is called in a host function", function);
  if (control().calls++ != control().failAt) return kSuccess;
  std::fprintf(stderr, "emulated CUDA: %s fails, as it was told to\n", function);
  return kIllegalAddress;
}
/// Held in every function, also while one waits for streams: the strictest that a driver may be.
std::mutex& driverLock() {
  static std::mutex* const made = new std::mutex;
  return *made;
}

#define BEGIN()                             \
  const DriverCode begun = begin(__func__); \
  if (begun != kSuccess) return begun;      \
  std::unique_lock driver(driverLock())
#define NEED(condition, code, ...) \
  if (!(condition)) return violation(code, __VA_ARGS__)

/// What every function on a stream does: finds it.
DriverCode findStream(NativeStream handle, std::shared_ptr<Stream>* stream, const char* function, bool puts) {
  NEED(current() != nullptr, kInvalidContext, "%s without a current context", function);
  *stream = Stream::of(handle, current()->ordinal);
  NEED(*stream != nullptr, kInvalidHandle, "%s: %p is no stream, or was destroyed", function,
       static_cast<void*>(handle));
  NEED((*stream)->ordinal == current()->ordinal, kInvalidHandle, "%s: the stream is another device's",
       function);
  if (puts && (*stream)->capturing) return static_cast<DriverCode>(900);  // unsupported in a capture
  return kSuccess;
}
#define FIND(handle, puts)     \
  std::shared_ptr<Stream> its; \
  if (const DriverCode found = findStream(handle, &its, __func__, puts); found != kSuccess) return found

DriverCode cuInit(unsigned) {
  BEGIN();
  return kSuccess;
}
DriverCode cuDriverGetVersion(int* version) {
  BEGIN();
  *version = kOldestDriver;
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
DriverCode cuDeviceGetAttribute(int* value, DeviceAttribute attribute, Device) {
  BEGIN();
  NEED(attribute == kCanUseStreamMemoryOperations64 || attribute == kMultiprocessors, kInvalidValue,
       "device attribute %d", attribute);
  *value = attribute == kMultiprocessors ? kRoom : 1;
  return kSuccess;
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
  NEED(current() != nullptr, kInvalidContext, "cuMemAlloc without a current context");
  *address = Memory::get().allocate(kDeviceMemory, current()->ordinal, bytes);
  return *address != 0 ? kSuccess : kOutOfMemory;
}
DriverCode cuMemFree(Address address) {
  BEGIN();
  Stream::awaitAll();
  return Memory::get().free(address, kDeviceMemory);
}
DriverCode cuMemFreeHost(void* memory) {
  BEGIN();
  Stream::awaitAll();
  return Memory::get().free(reinterpret_cast<Address>(memory), kHostMemory);
}
DriverCode cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  BEGIN();
  return control().lends == 0 ? kNotSupported : Memory::get().lend(address, handle);
}
DriverCode cuIpcOpenMemHandle(Address* address, IpcHandle handle, unsigned flags) {
  BEGIN();
  NEED(current() != nullptr, kInvalidContext, "cuIpcOpenMemHandle without a current context");
  NEED(flags == kLazyPeerAccess, kInvalidValue, "cuIpcOpenMemHandle has one flag, and it has to be given");
  return Memory::get().borrow(handle, current()->ordinal, address);
}
DriverCode cuIpcCloseMemHandle(Address address) {
  BEGIN();
  Stream::awaitAll();
  return Memory::get().giveBack(address);
}
DriverCode cuMemcpy(Address to, Address from, size_t bytes) {
  BEGIN();
  const auto place = [&](Address address) {  // ordinary host memory will do
    return Memory::get().find(address) != nullptr ? Memory::get().at(address, bytes, "cuMemcpy")
                                                  : reinterpret_cast<char*>(address);
  };
  char *const destination = place(to), *const source = place(from);
  if (destination == nullptr || source == nullptr) return kInvalidValue;
  std::memcpy(destination, source, bytes);
  return kSuccess;
}
DriverCode cuMemcpyAsync(Address to, Address from, size_t bytes, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  char *const destination = Memory::get().at(to, bytes, __func__), *const source =
                                                                       Memory::get().at(from, bytes, __func__);
  if (destination == nullptr || source == nullptr) return kInvalidValue;
  its->put([=] {
    // Looked up again: it must not be freed meanwhile.
    if (Memory::get().at(to, bytes, "a copy") != nullptr && Memory::get().at(from, bytes, "a copy") != nullptr)
      std::memcpy(destination, source, bytes);
    return true;
  });
  return kSuccess;
}
DriverCode cuMemsetD8Async(Address address, unsigned char value, size_t bytes, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  char* const at = Memory::get().at(address, bytes, __func__);
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return std::memset(at, value, bytes), true; });
  return kSuccess;
}
DriverCode cuDeviceCanAccessPeer(int* can, Device, Device) {
  BEGIN();
  *can = control().peersReach;
  return kSuccess;
}
DriverCode cuCtxEnablePeerAccess(Context peer, unsigned) {
  BEGIN();
  NEED(current() != nullptr && peer != current(), kInvalidContext,
       "cuCtxEnablePeerAccess to itself, or without a context");
  return kSuccess;
}
DriverCode cuModuleLoadData(Module* module, const void*) {
  BEGIN();
  *module = reinterpret_cast<Module>(contextOf(0));
  return kSuccess;
}
DriverCode cuModuleGetFunction(Function* function, Module, const char* name) {
  BEGIN();
  *function = kernelOf(name);
  NEED(*function != nullptr, kNotFound, "there is no kernel %s", name);
  return kSuccess;
}
DriverCode cuLaunchKernel(Function function, unsigned blocks, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, NativeStream stream, void** arguments, void**) {
  BEGIN();
  FIND(stream, true);
  NEED(blocks > 0, kInvalidValue, "a kernel of no blocks");
  const auto* const first = static_cast<const std::byte*>(arguments[0]);
  const std::vector<std::byte> copied(first, first + argumentBytes(function));
  its->put([=, ordinal = its->ordinal] { return runKernel(function, blocks, copied, ordinal), true; });
  return kSuccess;
}
DriverCode cuEventCreate(Event* event, unsigned) {
  BEGIN();
  *event = new EventOf;
  return kSuccess;
}
DriverCode cuEventDestroy(Event event) {
  BEGIN();
  delete event;
  return kSuccess;
}
DriverCode cuEventRecord(Event event, NativeStream stream) {
  BEGIN();
  FIND(stream, true);
  event->stream = its;
  event->count = its->given();
  return kSuccess;
}
DriverCode cuStreamWaitEvent(NativeStream stream, Event event, unsigned) {
  BEGIN();
  FIND(stream, true);
  if (event->stream == nullptr) return kSuccess;
  its->put([before = event->stream, count = event->count] { return before->made(count); });
  return kSuccess;
}
DriverCode cuStreamCreate(NativeStream* stream, unsigned flags) {
  BEGIN();
  NEED(current() != nullptr, kInvalidContext, "cuStreamCreate without a current context");
  *stream = Stream::make(current()->ordinal, flags != kStreamNonBlocking)->handle();
  return kSuccess;
}
DriverCode cuStreamDestroy(NativeStream stream) {
  BEGIN();
  NEED(Stream::drop(stream), kInvalidHandle, "cuStreamDestroy: %p is no stream", static_cast<void*>(stream));
  return kSuccess;
}
DriverCode cuStreamSynchronize(NativeStream stream) {
  BEGIN();
  FIND(stream, false);
  driver.unlock();
  its->await();
  return kSuccess;
}
DriverCode cuStreamQuery(NativeStream stream) {
  BEGIN();
  FIND(stream, false);
  return its->idle() ? kSuccess : kNotReady;
}
DriverCode cuStreamGetFlags(NativeStream stream, unsigned* flags) {
  BEGIN();
  FIND(stream, false);
  *flags = its->blocking ? 0 : kStreamNonBlocking;
  return kSuccess;
}
DriverCode cuStreamIsCapturing(NativeStream stream, int* status) {
  BEGIN();
  FIND(stream, false);
  *status = its->capturing ? 1 : kCaptureNone;
  return kSuccess;
}
DriverCode cuStreamBeginCapture(NativeStream stream, int) {
  BEGIN();
  FIND(stream, false);
  its->capturing = true;
  return kSuccess;
}
DriverCode cuStreamEndCapture(NativeStream stream, void** graph) {
  BEGIN();
  FIND(stream, false);
  its->capturing = false;
  *graph = nullptr;
  return kSuccess;
}
DriverCode cuStreamWaitValue64(NativeStream stream, Address word, uint64_t value, unsigned flags) {
  BEGIN();
  FIND(stream, true);
  NEED(word % sizeof value == 0, kInvalidValue, "a stream waits for a misaligned word");
  NEED(flags == kWaitAtLeast, kInvalidValue, "a way to wait that is not emulated: %u", flags);
  const auto* const at = reinterpret_cast<uint64_t*>(Memory::get().at(word, sizeof value, __func__));
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return static_cast<int64_t>(__atomic_load_n(at, __ATOMIC_ACQUIRE) - value) >= 0; });
  return kSuccess;
}
DriverCode cuStreamWriteValue64(NativeStream stream, Address word, uint64_t value, unsigned) {
  BEGIN();
  FIND(stream, true);
  NEED(word % sizeof value == 0, kInvalidValue, "a stream writes a misaligned word");
  auto* const at = reinterpret_cast<uint64_t*>(Memory::get().at(word, sizeof value, __func__));
  if (at == nullptr) return kInvalidValue;
  its->put([=] { return __atomic_store_n(at, value, __ATOMIC_RELEASE), true; });
  return kSuccess;
}
DriverCode cuLaunchHostFunc(NativeStream stream, HostFunction function, void* argument) {
  BEGIN();
  FIND(stream, true);
  its->put([=] {
    ++control().hostFunctions;
    inHostFunction() = true;
    function(argument);
    inHostFunction() = false;
    return true;
  });
  return kSuccess;
}

}  // namespace

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

extern "C" __attribute__((visibility("default"))) Control* cuEmulationControl() {
  return &control();
}

}  // namespace eccl::cuda_emulation
