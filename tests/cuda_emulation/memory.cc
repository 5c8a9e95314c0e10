#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "cuda_emulation/emulation.h"

namespace eccl::cuda_emulation {
namespace {

constexpr size_t kPage = 4096;

/// What kernels may do with device memory, and the processor else not.
constexpr int kKernels = PROT_READ | PROT_WRITE;

/// Bytes that lie in two places: where the processor finds them, and, without access, at their address.
bool mapTwice(int fd, size_t bytes, int protection, void** data, void* place) {
  *data = MAP_FAILED;
  if (place != nullptr && mmap(place, bytes, protection, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED)
    *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return *data != MAP_FAILED;
}

/// What an IpcHandle holds.
struct Lent {
  pid_t pid;
  int fd, ordinal;
  size_t bytes;
};
static_assert(sizeof(Lent) <= sizeof(IpcHandle));

}  // namespace

Control& control() {
  static Control* const made = new Control;
  return *made;
}

DriverCode violation(DriverCode code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fputs("emulated CUDA: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  ++control().violations;
  return code;
}

Memory& Memory::get() {
  static Memory* const made = new Memory;
  return *made;
}

int Memory::file(int ordinal, size_t bytes) {
  const int fd = memfd_create(std::to_string(ordinal).c_str(), MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  return close(fd), -1;
}

/// By its name: /memfd:0 (deleted)
int Memory::ordinalOf(int fd) {
  char name[64] = "";
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1);
  int ordinal = -1;
  return length > 0 && std::sscanf(name, "/memfd:%d", &ordinal) == 1 ? ordinal : -1;
}

Address Memory::reserve(size_t bytes) {
  const size_t all = bytes + kPage + kAlignment;  // a page more, so that no two blocks adjoin
  void* const place = mmap(nullptr, all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return 0;
  const auto first = reinterpret_cast<Address>(place),
             begin = (first + kAlignment - 1) / kAlignment * kAlignment;
  if (begin > first) munmap(place, begin - first);
  munmap(reinterpret_cast<void*>(begin + bytes + kPage), all - (begin - first) - bytes - kPage);
  return begin;
}

DriverCode Memory::map(Address address, size_t bytes, int ordinal, int fd) {
  std::lock_guard lock(mutex_);
  void* data;
  if (!mapTwice(fd, bytes, PROT_NONE, &data, reinterpret_cast<void*>(address))) return close(fd), kOutOfMemory;
  Block& block = blocks_[address];
  block = {kDeviceMemory, ordinal, bytes, static_cast<char*>(data), fd, false, {}, true, false};
  control().deviceBytes += static_cast<int64_t>(bytes);
  return kSuccess;
}

DriverCode Memory::allowAt(Address address) {
  std::lock_guard lock(mutex_);
  Block& block = blocks_.at(address);
  block.allowed = true;
  mprotect(reinterpret_cast<void*>(address), block.bytes, kernels_ > 0 ? kKernels : PROT_NONE);
  return kSuccess;
}

DriverCode Memory::unmap(Address address) {
  std::lock_guard lock(mutex_);
  release(address, blocks_.at(address));
  return kSuccess;
}

void Memory::forget(Address address, size_t bytes) {
  std::lock_guard lock(mutex_);
  blocks_.erase(address);
  munmap(reinterpret_cast<void*>(address), bytes + kPage);
}

/// Under the mutex, of device memory. The addresses stay taken: whoever uses them later is found out.
void Memory::release(Address address, Block& block) {
  block.freed = true;
  control().deviceBytes -= static_cast<int64_t>(block.bytes);
  munmap(block.data, block.bytes);
  const auto place = reinterpret_cast<void*>(address);
  mmap(place, block.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  close(block.fd);
}

Address Memory::allocate(MemoryType type, int ordinal, size_t bytes) {
  if (bytes == 0) return 0;
  const int fd = type == kHostMemory ? -1 : file(ordinal, (bytes + kPage - 1) / kPage * kPage);
  if (type != kHostMemory && fd < 0) return 0;
  std::lock_guard lock(mutex_);
  return add(type, ordinal, bytes, fd);
}

/// Under the mutex.
Address Memory::add(MemoryType type, int ordinal, size_t bytes, int fd) {
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  void* data;
  Address address;
  if (type == kHostMemory) {
    data = mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return 0;
    address = reinterpret_cast<Address>(data);
  } else {
    address = reserve(pages);
    if (!mapTwice(fd, pages, kernels_ > 0 ? kKernels : PROT_NONE, &data, reinterpret_cast<void*>(address)))
      return 0;
  }
  blocks_[address] = {type, ordinal, bytes, static_cast<char*>(data), fd, false, {}, false, true};
  (type == kHostMemory ? control().pinnedBytes : control().deviceBytes) += static_cast<int64_t>(bytes);
  return address;
}

DriverCode Memory::lend(Address address, IpcHandle* handle) {
  std::lock_guard lock(mutex_);
  const auto at = blocks_.find(address);
  if (at == blocks_.end() || at->second.freed || at->second.type != kDeviceMemory ||
      !at->second.borrowed.empty() || at->second.mapped)
    return violation(kInvalidValue, "%#llx is not where a block of this process's device memory begins",
                     address);
  const Lent lent{getpid(), at->second.fd, at->second.ordinal, at->second.bytes};
  *handle = {};
  std::memcpy(handle, &lent, sizeof lent);
  return kSuccess;
}

DriverCode Memory::borrow(const IpcHandle& handle, int ordinal, Address* address) {
  Lent lent;
  std::memcpy(&lent, &handle, sizeof lent);
  if (lent.pid == getpid())
    return violation(kInvalidContext, "cuIpcOpenMemHandle in the process whose memory it is");
  if (lent.ordinal != ordinal && control().peersReach == 0) return kNoPeerAccess;
  const std::string name = "/proc/" + std::to_string(lent.pid) + "/fd/" + std::to_string(lent.fd);
  std::lock_guard lock(mutex_);
  for (const auto& [begin, block] : blocks_) {
    if (!block.freed && block.borrowed == name && block.ordinal == ordinal)
      return violation(kAlreadyMapped, "the memory of process %d is opened twice", lent.pid);
  }
  const int fd = open(name.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return kInvalidValue;  // its process has ended
  *address = add(kDeviceMemory, ordinal, lent.bytes, fd);
  if (*address == 0) return kOutOfMemory;
  blocks_[*address].borrowed = name;
  return kSuccess;
}

void Memory::kernelBegins() {
  std::lock_guard lock(mutex_);
  if (kernels_++ == 0) allow(kKernels);
}

void Memory::kernelEnds() {
  std::lock_guard lock(mutex_);
  if (--kernels_ == 0) allow(PROT_NONE);
}

void Memory::allow(int protection) {
  for (const auto& [address, block] : blocks_) {
    if (block.type == kDeviceMemory && !block.freed && block.allowed)
      mprotect(reinterpret_cast<void*>(address), block.bytes, protection);
  }
}

std::map<Address, Memory::Block>::iterator Memory::blockOf(Address address) {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  const auto at = std::prev(after);
  return address < at->first + at->second.bytes ? at : blocks_.end();
}

DriverCode Memory::free(Address address, MemoryType type) {
  std::lock_guard lock(mutex_);
  const auto at = blocks_.find(address);
  if (at == blocks_.end() || at->second.freed || at->second.type != type || !at->second.borrowed.empty() ||
      at->second.mapped)
    return violation(kInvalidValue, "%#llx is freed and is no such memory, or was freed before", address);
  if (type == kDeviceMemory) return release(address, at->second), kSuccess;
  at->second.freed = true;
  mprotect(at->second.data, at->second.bytes, PROT_NONE);
  return kSuccess;
}

DriverCode Memory::rangeOf(Address address, Address* begin, size_t* bytes) {
  std::lock_guard lock(mutex_);
  const auto at = blockOf(address);
  if (at == blocks_.end() || at->second.freed) return kInvalidValue;
  *begin = at->first;
  *bytes = at->second.bytes;
  return kSuccess;
}

const Memory::Block* Memory::find(Address address) {
  std::lock_guard lock(mutex_);
  const auto at = blockOf(address);
  return at == blocks_.end() || at->second.freed ? nullptr : &at->second;
}

bool Memory::read(void* to, const void* from, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto address = reinterpret_cast<Address>(from);
  const auto at = blockOf(address);
  if (at == blocks_.end() || at->second.freed) return false;
  std::memcpy(to, at->second.data + (address - at->first), bytes);
  return true;
}

bool Memory::knows(Address address) {
  std::lock_guard lock(mutex_);
  return blockOf(address) != blocks_.end();
}

char* Memory::at(Address address, size_t bytes, const char* use) {
  std::lock_guard lock(mutex_);
  const auto at = blockOf(address);
  if (at == blocks_.end()) {
    violation(kInvalidValue, "%s: %#llx is no memory that CUDA knows", use, address);
    return nullptr;
  }
  const auto& [begin, block] = *at;
  if (block.freed || !block.allowed || address - begin + bytes > block.bytes) {
    violation(kInvalidValue, "%s: %zu bytes at %#llx, which is %s", use, bytes, address,
              block.freed ? "freed" : "more than the block has");
    return nullptr;
  }
  return block.data + (address - begin);
}

}  // namespace eccl::cuda_emulation
