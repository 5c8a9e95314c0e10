#include "runtime/cuda/gpu.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/log.h"
#include "runtime/cuda/lanes/image.h"

namespace eccl::runtime::cuda {
namespace {

constexpr size_t kLeastPinned = 1 << 16, kWordsBytes = 4096, kWordDistance = 64;  // a cache line each

/// Sizes in which memory is taken: four for each power of two, so that little is wasted and much is used again.
size_t sizeClass(size_t bytes) {
  bytes = std::max(bytes, kLeastPinned);
  const size_t step = std::bit_floor(bytes) / 4;
  return (bytes + step - 1) / step * step;
}

/// Of one process: what its environment says, else what was measured (H100, driver 580, November 2026;
/// perf/results/gpu.md).
size_t copyQueues() {
  for (const char* name : {"CUDA_DEVICE_MAX_COPY_CONNECTIONS", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
    const char* const value = std::getenv(name);
    if (const int number = value == nullptr ? 0 : std::atoi(value); number > 0)
      return static_cast<size_t>(std::min(number, 32));  // the most that CUDA takes
  }
  return 4;
}

}  // namespace

Result<Gpu*> Gpu::of(int ordinal) {
  ECCL_ASSIGN(const Driver* driver, Driver::get());
  if (ordinal < 0) {
    Context current = nullptr;
    ordinal = 0;
    if (driver->cuCtxGetCurrent(&current) == kSuccess && current != nullptr)
      ECCL_TRY(driver->check(driver->cuCtxGetDevice(&ordinal), "cuCtxGetDevice", "of this thread"));
  }
  static std::mutex mutex;
  static auto* const known = new std::map<int, Gpu*>;
  std::lock_guard lock(mutex);
  Gpu*& gpu = (*known)[ordinal];
  if (gpu != nullptr) return gpu;
  std::unique_ptr<Gpu> made(new Gpu(*driver, ordinal));
  ECCL_TRY(made->open());
  return gpu = made.release();
}

Status Gpu::open() {
  int devices = 0, words = 0;
  ECCL_TRY(driver_.check(driver_.cuDeviceGetCount(&devices), "cuDeviceGetCount", "of this process"));
  if (ordinal_ >= devices)
    return Status::error(Code::invalidArgument, "there is no CUDA device %d; this process sees %d", ordinal_,
                         devices);
  Device device = 0;
  char name[128] = "";
  ECCL_TRY(driver_.check(driver_.cuDeviceGet(&device, ordinal_), "cuDeviceGet", "of CUDA device %d", ordinal_));
  ECCL_TRY(driver_.check(driver_.cuDeviceGetName(name, sizeof name, device), "cuDeviceGetName",
                         "of CUDA device %d", ordinal_));
  name_ = format("CUDA device %d (%s)", ordinal_, name);
  ECCL_TRY(driver_.check(driver_.cuDeviceGetUuid(&uuid_, device), "cuDeviceGetUuid", "of %s", name_.c_str()));
  char address[32] = "";
  ECCL_TRY(driver_.check(driver_.cuDeviceGetPCIBusId(address, sizeof address, device), "cuDeviceGetPCIBusId",
                         "of %s", name_.c_str()));
  for (const char* each = address; *each != 0; ++each)
    pciAddress_ += static_cast<char>(std::tolower(static_cast<unsigned char>(*each)));
  ECCL_TRY(driver_.check(driver_.cuDeviceGetAttribute(&words, kCanUseStreamMemoryOperations64, device),
                         "cuDeviceGetAttribute", "of %s", name_.c_str()));
  if (words == 0)
    return Status::error(
        Code::system, "%s has no 64-bit stream memory operations, which ECCL needs: use another GPU or driver",
        name_.c_str());
  int multiprocessors = 0;
  ECCL_TRY(driver_.check(driver_.cuDeviceGetAttribute(&multiprocessors, kMultiprocessors, device),
                         "cuDeviceGetAttribute", "of %s", name_.c_str()));
  multiprocessors_ = static_cast<uint32_t>(multiprocessors);
  findMappedMemory(device, devices);
  return driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain", "of %s",
                       name_.c_str());
}

std::optional<int> Gpu::valueOf(DeviceAttribute what) const {
  Device device = 0;
  int value = 0;
  if (driver_.cuDeviceGet(&device, ordinal_) != kSuccess ||
      driver_.cuDeviceGetAttribute(&value, what, device) != kSuccess)
    return {};
  return value;
}

// Before compute capability 9 NCCL reads such memory back by the device first, whatever the driver says. And
// where the processor shares the GPU's page tables (Grace), the host hears of a message by another way than its
// data comes.
bool Gpu::ordersRdmaWrites() const {
  return valueOf(kRdmaWritesOrdering) >= kOrderedForOwner && valueOf(kComputeCapabilityMajor) >= 9 &&
         valueOf(kUsesHostPageTables) == 0;
}

void Gpu::findMappedMemory(Device device, int devices) {
  for (int other = 0; other < devices; ++other) {
    Device peer = 0;
    int can = 0;
    if (other != ordinal_ && driver_.cuDeviceGet(&peer, other) == kSuccess &&
        driver_.cuDeviceCanAccessPeer(&can, peer, device) == kSuccess && can != 0)
      peers_.push_back(other);
  }
  const auto can = [&](DeviceAttribute what) { return valueOf(what).value_or(0) != 0; };
  if (!can(kCanMapMemory) || !can(kCanExportDescriptors)) return;
  MemoryProperties its;
  its.type = kPinnedMemory;
  its.handleTypes = kByDescriptor;
  its.location = {kOnDevice, ordinal_};
  its.rdma = can(kCanMapForRdma) ? 1 : 0;  // what else the program uses may register it
  size_t granularity = 0;
  if (driver_.cuMemGetAllocationGranularity(&granularity, &its, kLeastGranularity) == kSuccess &&
      granularity > 0 && kPage % granularity == 0)
    mappedMemory_ = its;
}

Result<Pinned> Gpu::pin(size_t bytes) {
  bytes = sizeClass(bytes);
  {
    std::lock_guard lock(mutex_);
    for (auto at = free_.lower_bound(bytes); at != free_.end() && at->first / 2 <= bytes; ++at) {
      const Word& last = at->second.last;
      if (last.host != nullptr && !last.reached(last.value)) continue;
      const Pinned pinned{at->second.memory, at->first};
      free_.erase(at);
      return pinned;
    }
  }
  // Without the lock, which engines take, too: the driver may wait here for a stream that waits for an engine.
  void* memory = nullptr;
  ECCL_TRY(driver_.check(driver_.cuMemHostAlloc(&memory, bytes, kHostPortable | kHostMapped), "cuMemHostAlloc",
                         "of %zu bytes to stage copies of %s in", bytes, name_.c_str()));
  return Pinned{static_cast<std::byte*>(memory), bytes};
}

void Gpu::giveBack(Pinned pinned, const Word& last) {
  std::lock_guard lock(mutex_);
  if (pinned.memory != nullptr) free_.emplace(pinned.bytes, Free{pinned.memory, last});
}

Result<Address> Gpu::take(size_t bytes) {
  bytes = sizeClass(bytes);
  Address address = 0;
  {
    std::lock_guard lock(mutex_);
    if (const auto at = freeOwn_.find(bytes); at != freeOwn_.end()) {
      address = at->second;
      freeOwn_.erase(at);
    }
  }
  if (address == 0)
    ECCL_TRY(driver_.check(driver_.cuMemAlloc(&address, bytes), "cuMemAlloc", "of %zu bytes on %s", bytes,
                           name_.c_str()));
  ECCL_TRY(clear(address, bytes));
  return address;
}

Status Gpu::clear(Address address, size_t bytes) {
  ECCL_TRY(openUploads());
  ECCL_TRY(driver_.check(driver_.cuMemsetD8Async(address, 0, bytes, uploads_), "cuMemsetD8Async", "on %s",
                         name_.c_str()));
  return driver_.check(driver_.cuStreamSynchronize(uploads_), "cuStreamSynchronize", "on %s", name_.c_str());
}

void Gpu::giveBack(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  if (address != 0) freeOwn_.emplace(sizeClass(bytes), address);
}

Status Gpu::openUploads() {
  std::lock_guard lock(making_);
  if (uploads_ != nullptr) return {};
  return driver_.check(driver_.cuStreamCreate(&uploads_, kStreamNonBlocking), "cuStreamCreate", "on %s",
                       name_.c_str());
}

Status Gpu::note(Address word, uint64_t value) {
  ECCL_TRY(openUploads());
  return driver_.check(driver_.cuStreamWriteValue64(uploads_, word, value, 0), "cuStreamWriteValue64", "on %s",
                       name_.c_str());
}

Status Gpu::write(Address word, uint64_t value) {
  ECCL_TRY(note(word, value));
  return driver_.check(driver_.cuStreamSynchronize(uploads_), "cuStreamSynchronize", "on %s", name_.c_str());
}

/// And waits for it.
Status Gpu::copy(Address to, Address from, size_t bytes) {
  ECCL_TRY(driver_.check(driver_.cuMemcpyAsync(to, from, bytes, uploads_), "cuMemcpyAsync",
                         "of %zu bytes to or from %s", bytes, name_.c_str()));
  return driver_.check(driver_.cuStreamSynchronize(uploads_), "cuStreamSynchronize", "on %s", name_.c_str());
}

Status Gpu::upload(Address to, const void* from, size_t bytes) {
  ECCL_TRY(openUploads());
  ECCL_ASSIGN(const Pinned pinned, pin(bytes));
  std::memcpy(pinned.memory, from, bytes);
  ECCL_TRY(copy(to, addressOf(pinned.memory), bytes));  // after an error it may still be read, and stays taken
  giveBack(pinned, {});
  return {};
}

Status Gpu::download(void* to, Address from, size_t bytes) {
  ECCL_TRY(openUploads());
  ECCL_ASSIGN(const Pinned pinned, pin(bytes));
  ECCL_TRY(copy(addressOf(pinned.memory), from, bytes));
  std::memcpy(to, pinned.memory, bytes);
  giveBack(pinned, {});
  return {};
}

Result<Function> Gpu::kernel(DataType type) {
  std::lock_guard lock(making_);
  Function& kernel = kernels_[static_cast<int>(type)];
  if (kernel != nullptr) return kernel;
  if (module_ == nullptr) {
    const DriverCode code = driver_.cuModuleLoadData(&module_, kLaneImage);
    if (code != kSuccess) module_ = nullptr;
    ECCL_TRY(driver_.check(code, "cuModuleLoadData", "of ECCL's lane kernels on %s", name_.c_str()));
  }
#define ECCL_KERNEL(name, Element, text) "eccl_lanes_" #name,
  static constexpr const char* kNames[] = {ECCL_DATA_TYPES(ECCL_KERNEL)};
#undef ECCL_KERNEL
  ECCL_TRY(driver_.check(driver_.cuModuleGetFunction(&kernel, module_, kNames[static_cast<int>(type)]),
                         "cuModuleGetFunction", "%s on %s", kNames[static_cast<int>(type)], name_.c_str()));
  return kernel;
}

Result<Word> Gpu::takeWord() {
  {
    std::lock_guard lock(mutex_);
    const auto settled =
        std::find_if(words_.begin(), words_.end(), [](const Word& word) { return word.reached(word.value); });
    if (settled != words_.end()) {
      const Word word = *settled;
      words_.erase(settled);
      return word;
    }
  }
  ECCL_ASSIGN(const Pinned page, pin(kWordsBytes));
  Address device = 0;
  const Status found = driver_.check(driver_.cuMemHostGetDevicePointer(&device, page.memory, 0),
                                     "cuMemHostGetDevicePointer", "on %s", name_.c_str());
  if (!found.ok()) return giveBack(page, {}), found;
  std::fill_n(page.memory, page.bytes, std::byte{});
  std::lock_guard lock(mutex_);
  for (size_t at = 0; at < page.bytes; at += kWordDistance)
    words_.push_back({reinterpret_cast<uint64_t*>(page.memory + at), device + at, 0});
  const Word word = words_.back();
  words_.pop_back();
  return word;
}

void Gpu::noteStaged(NativeStream stream, const Word& over) {
  static const size_t queues = copyQueues();
  std::lock_guard lock(mutex_);
  if (toldOfQueues_) return;
  staged_[stream] = over;
  if (staged_.size() <= queues) return;
  std::erase_if(staged_, [](const auto& each) { return each.second.reached(each.second.value); });
  if (staged_.size() <= queues) return;
  toldOfQueues_ = true;
  ECCL_WARN(
      "%zu streams of this process have staged calls at once on %s, and CUDA copies for %zu at once: a call "
      "may "
      "come behind one of another stream, which waits for it on another rank, and hang. Set "
      "CUDA_DEVICE_MAX_COPY_CONNECTIONS=32 before the program starts",
      staged_.size(), name_.c_str(), queues);
}

void Gpu::giveBack(Word word) {
  std::lock_guard lock(mutex_);
  if (word.host != nullptr) words_.push_back(word);
}

}  // namespace eccl::runtime::cuda
