// CUDA's driver as tests call it: the emulated one, or, where ECCL_TESTS_CUDA=real, that of the machine.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda_emulation/control.h"
#include "eccl/eccl.h"

namespace eccl::test {

namespace cu = runtime::cuda;
using cu::Address;
using cu::DriverCode;
using cu::NativeStream;

/// The driver's functions, under their own names. One for each process; loaded at first use, which has to come
/// before the library looks for the driver.
struct Cuda {
  static Cuda& get() {
    static Cuda* const made = new Cuda;
    return *made;
  }
  /// Null over a real driver.
  cuda_emulation::Control* control = nullptr;
  bool emulated() const { return control != nullptr; }

#define ECCL_TEST_MEMBER(name, parameters) cu::DriverCode(*name) parameters = nullptr;
  using Device = cu::Device;
  using Uuid = cu::Uuid;
  using IpcHandle = cu::IpcHandle;
  using Context = cu::Context;
  using DeviceAttribute = cu::DeviceAttribute;
  using PointerAttribute = cu::PointerAttribute;
  using HostFunction = cu::HostFunction;
  using Event = cu::Event;
  using Module = cu::Module;
  using Function = cu::Function;
  using Graph = cu::Graph;
  using GraphExec = cu::GraphExec;
  using GraphNode = cu::GraphNode;
  using UserObject = cu::UserObject;
  using MemoryHandle = cu::MemoryHandle;
  using MemoryProperties = cu::MemoryProperties;
  using MemoryAccess = cu::MemoryAccess;
  ECCL_CUDA_FUNCTIONS(ECCL_TEST_MEMBER)
  ECCL_CUDA_TEST_FUNCTIONS(ECCL_TEST_MEMBER)
#undef ECCL_TEST_MEMBER

  /// Has device `ordinal` be current in this thread.
  void use(int ordinal) {
    Context context = nullptr;
    need(cuDevicePrimaryCtxRetain(&context, ordinal), "cuDevicePrimaryCtxRetain");
    need(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  }
  int devices() const {
    int count = 0;
    need(cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
  }
  static void need(DriverCode code, const char* what) {
    if (code == cu::kSuccess) return;
    std::fprintf(stderr, "%s: CUDA error %d\n", what, code);
    std::abort();
  }

 private:
  Cuda() {
    const char* const which = std::getenv("ECCL_TESTS_CUDA");
    const bool real = which != nullptr && std::strcmp(which, "real") == 0;
    // Its soname is the driver's: who asks for libcuda.so.1 from now on gets this one.
    void* const library = dlopen(real ? "libcuda.so.1" : ECCL_CUDA_EMULATION, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
    if (!real)
      control = reinterpret_cast<cuda_emulation::ControlFunction*>(dlsym(library, "cuEmulationControl"))();
    const auto find = reinterpret_cast<cu::DriverCode (*)(const char*, void**, int, uint64_t, int*)>(
        dlsym(library, "cuGetProcAddress_v2"));
#define ECCL_TEST_FIND(name, parameters) \
  need(find(#name, reinterpret_cast<void**>(&name), cu::kOldestDriver, cu::kLegacyStreams, nullptr), #name);
    ECCL_CUDA_FUNCTIONS(ECCL_TEST_FIND)
    ECCL_CUDA_TEST_FUNCTIONS(ECCL_TEST_FIND)
#undef ECCL_TEST_FIND
    need(cuInit(0), "cuInit");
  }
};

/// Whose a GPU's memory is: the driver's, or ecclMemAlloc's, of which other processes reach blocks of 1 MiB and
/// more. ECCL_DEVICE=cuda then. kept: the library's, which stays for the next buffer of the size on the device,
/// as with allocators of frameworks.
enum class From { driver, library, kept };

/// Memory of ecclMemAlloc's that is not in use. Any thread.
class KeptMemory {
 public:
  static Address take(size_t bytes) {
    std::lock_guard lock(mutex());
    std::vector<Address>& free = all()[key(bytes)];
    if (free.empty()) return 0;
    const Address address = free.back();
    free.pop_back();
    return address;
  }
  static void giveBack(Address address, size_t bytes) {
    std::lock_guard lock(mutex());
    all()[key(bytes)].push_back(address);
  }

 private:
  static std::mutex& mutex() {
    static std::mutex* const made = new std::mutex;
    return *made;
  }
  static std::map<std::pair<int, size_t>, std::vector<Address>>& all() {
    static auto* const made = new std::map<std::pair<int, size_t>, std::vector<Address>>;
    return *made;
  }
  static std::pair<int, size_t> key(size_t bytes) {
    int device = 0;
    Cuda::need(Cuda::get().cuCtxGetDevice(&device), "cuCtxGetDevice");
    return {device, bytes};
  }
};

/// Elements in a GPU's memory. Its device is current where it is made, filled, read and freed.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::vector<T> values, From from = From::driver) : count_(values.size()), from_(from) {
    const size_t bytes = count_ * sizeof(T) + (count_ == 0);
    if (from == From::driver) Cuda::need(Cuda::get().cuMemAlloc(&address_, bytes), "cuMemAlloc");
    if (from == From::kept) address_ = KeptMemory::take(bytes);
    if (address_ == 0)
      need(ecclMemAlloc(reinterpret_cast<void**>(&address_), std::max<size_t>(bytes, 1 << 20)));
    write(values);
  }
  ~DeviceBuffer() {
    if (from_ == From::driver) Cuda::need(Cuda::get().cuMemFree(address_), "cuMemFree");
    if (from_ == From::library) need(ecclMemFree(data()));
    if (from_ == From::kept) KeptMemory::giveBack(address_, count_ * sizeof(T) + (count_ == 0));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept = delete;
  T* data() const { return reinterpret_cast<T*>(address_); }
  void write(const std::vector<T>& values) const {
    Cuda& cuda = Cuda::get();
    Cuda::need(cuda.cuMemcpy(address_, reinterpret_cast<Address>(values.data()), count_ * sizeof(T)),
               "cuMemcpy");
    // From ordinary memory it may return before the bytes are there, and other streams do not wait for it.
    Cuda::need(cuda.cuStreamSynchronize(nullptr), "cuStreamSynchronize");
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    Cuda::need(Cuda::get().cuMemcpy(reinterpret_cast<Address>(values.data()), address_, count_ * sizeof(T)),
               "cuMemcpy");
    return values;
  }

 private:
  static void need(ecclResult_t done) {
    Cuda::need(done == ecclSuccess ? cu::kSuccess : cu::kUnknown, ecclGetLastError(nullptr));
  }
  size_t count_;
  From from_;
  Address address_ = 0;
};

/// A stream of the device that is current where it is made.
class DeviceStream {
 public:
  explicit DeviceStream(bool blocking = false) {
    Cuda::need(Cuda::get().cuStreamCreate(&stream_, blocking ? 0 : cu::kStreamNonBlocking), "cuStreamCreate");
  }
  ~DeviceStream() { Cuda::need(Cuda::get().cuStreamDestroy(stream_), "cuStreamDestroy"); }
  DeviceStream(const DeviceStream&) = delete;
  NativeStream native() const { return stream_; }
  void synchronize() const { Cuda::need(Cuda::get().cuStreamSynchronize(stream_), "cuStreamSynchronize"); }

 private:
  NativeStream stream_ = nullptr;
};

/// What was put into a stream while it was captured, to be run again and again. It is on the device when it is
/// made: its first launch would bring it there, by a hardware queue that a kernel of another rank may hold up
/// which waits for that launch (docs/gpu.md). So ranks that share a GPU and a process meet before they launch.
class DeviceGraph {
 public:
  /// `fill` puts it there. `mode`: CUstreamCaptureMode. `later`: the caller instantiates it, as that
  /// cannot be done while another thread captures in the global mode.
  template <class Fill>
  DeviceGraph(const DeviceStream& stream, const Fill& fill, int mode = kThread, bool later = false) {
    Cuda& cuda = Cuda::get();
    Cuda::need(cuda.cuStreamBeginCapture(stream.native(), mode), "cuStreamBeginCapture");
    fill();
    captured_ = cuda.cuStreamEndCapture(stream.native(), &graph_);
    if (captured_ == cu::kSuccess && !later) instantiate(stream);
  }
  ~DeviceGraph() {
    if (instance_ != nullptr) Cuda::need(Cuda::get().cuGraphExecDestroy(instance_), "cuGraphExecDestroy");
    if (graph_ != nullptr && owner_) Cuda::need(Cuda::get().cuGraphDestroy(graph_), "cuGraphDestroy");
  }
  /// Another instance of it.
  DeviceGraph(const DeviceGraph& other, const DeviceStream& stream) : owner_(false), graph_(other.graph_) {
    instantiate(stream);
  }
  DeviceGraph(const DeviceGraph&) = delete;
  static constexpr int kGlobal = 0, kThread = 1;

  DriverCode captured() const { return captured_; }
  void instantiate(const DeviceStream& stream) {
    Cuda& cuda = Cuda::get();
    Cuda::need(cuda.cuGraphInstantiateWithFlags(&instance_, graph_, 0), "cuGraphInstantiate");
    Cuda::need(cuda.cuGraphUpload(instance_, stream.native()), "cuGraphUpload");
    stream.synchronize();
  }
  void launch(const DeviceStream& stream) {
    Cuda::need(Cuda::get().cuGraphLaunch(instance_, stream.native()), "cuGraphLaunch");
  }

 private:
  const bool owner_ = true;
  DriverCode captured_ = cu::kSuccess;
  cu::Graph graph_ = nullptr;
  cu::GraphExec instance_ = nullptr;
};

}  // namespace eccl::test
