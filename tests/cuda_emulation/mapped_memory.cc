// Memory that is created, mapped and shared by descriptors (CUDA's virtual memory management).
//
// What is strict: sizes and addresses are whole pages; what is mapped cannot be touched before cuMemSetAccess;
// a range is unmapped before it is freed; to unmap waits for nothing, so that a kernel which uses it faults.
#include <sys/stat.h>
#include <unistd.h>

#include "cuda_emulation/calls.h"

namespace eccl::cuda_emulation {
namespace {

constexpr size_t kGranularity = 2 << 20;

struct Created {
  int fd, ordinal;
  size_t bytes;
};
/// By handle; and what is reserved, by address. Under the driver's lock.
std::map<MemoryHandle, Created>& created() {
  static auto* const made = new std::map<MemoryHandle, Created>;
  return *made;
}
std::map<Address, size_t>& reserved() {
  static auto* const made = new std::map<Address, size_t>;
  return *made;
}

MemoryHandle add(int fd, int ordinal, size_t bytes) {
  static MemoryHandle last = 0;
  created()[++last] = {fd, ordinal, bytes};
  ++control().mappedBlocks;
  return last;
}

bool inPages(size_t bytes) {
  return bytes > 0 && bytes % kGranularity == 0;
}

}  // namespace

DriverCode cuMemGetAllocationGranularity(size_t* bytes, const MemoryProperties* its, int) {
  BEGIN();
  WAITS();
  NEED(its->type == kPinnedMemory && its->location.type == kOnDevice, kInvalidValue, "memory of another kind");
  *bytes = kGranularity;
  return kSuccess;
}

DriverCode cuMemCreate(MemoryHandle* handle, size_t bytes, const MemoryProperties* its, uint64_t flags) {
  BEGIN();
  WAITS();
  NEED(its->type == kPinnedMemory && its->location.type == kOnDevice && its->handleTypes == kByDescriptor &&
           flags == 0,
       kInvalidValue, "memory of another kind");
  NEED(inPages(bytes), kInvalidValue, "cuMemCreate of %zu bytes, which are not whole pages", bytes);
  const int fd = Memory::file(its->location.id, bytes);
  if (fd < 0) return kOutOfMemory;
  *handle = add(fd, its->location.id, bytes);
  return kSuccess;
}

DriverCode cuMemRelease(MemoryHandle handle) {
  BEGIN();
  WAITS();
  const auto found = created().find(handle);
  NEED(found != created().end(), kInvalidValue, "cuMemRelease of no memory, or twice");
  close(found->second.fd);
  created().erase(found);
  --control().mappedBlocks;
  return kSuccess;
}

DriverCode cuMemExportToShareableHandle(void* shared, MemoryHandle handle, int type, uint64_t flags) {
  BEGIN();
  WAITS();
  const auto found = created().find(handle);
  NEED(found != created().end() && type == kByDescriptor && flags == 0, kInvalidValue, "export of no memory");
  *static_cast<int*>(shared) = dup(found->second.fd);
  return kSuccess;
}

DriverCode cuMemImportFromShareableHandle(MemoryHandle* handle, void* shared, int type) {
  BEGIN();
  WAITS();
  NEED(type == kByDescriptor, kInvalidValue, "import of another kind");
  if (control().mapsOthers == 0) return kNotSupported;
  const auto fd = static_cast<int>(reinterpret_cast<intptr_t>(shared));
  struct stat about {};
  if (fstat(fd, &about) != 0 || !inPages(static_cast<size_t>(about.st_size))) return kInvalidValue;
  *handle = add(dup(fd), Memory::ordinalOf(fd), static_cast<size_t>(about.st_size));
  return kSuccess;
}

DriverCode cuMemAddressReserve(Address* address, size_t bytes, size_t alignment, Address wanted,
                               uint64_t flags) {
  BEGIN();
  WAITS();
  NEED(inPages(bytes) && wanted == 0 && flags == 0 && kGranularity % (alignment + (alignment == 0)) == 0,
       kInvalidValue, "cuMemAddressReserve of %zu bytes", bytes);
  *address = Memory::reserve(bytes);
  if (*address == 0) return kOutOfMemory;
  reserved()[*address] = bytes;
  return kSuccess;
}

DriverCode cuMemAddressFree(Address address, size_t bytes) {
  BEGIN();
  WAITS();
  const auto found = reserved().find(address);
  NEED(found != reserved().end() && found->second == bytes, kInvalidValue,
       "cuMemAddressFree of what was not reserved so");
  NEED(Memory::get().find(address) == nullptr, kInvalidValue, "cuMemAddressFree of what is still mapped");
  reserved().erase(found);
  Memory::get().forget(address, bytes);
  return kSuccess;
}

DriverCode cuMemMap(Address address, size_t bytes, size_t offset, MemoryHandle handle, uint64_t flags) {
  BEGIN();
  WAITS();
  const auto memory = created().find(handle);
  const auto range = reserved().find(address);
  NEED(range != reserved().end() && range->second == bytes && offset == 0 && flags == 0, kInvalidValue,
       "cuMemMap to what was not reserved so");
  NEED(memory != created().end(), kInvalidValue, "cuMemMap of no memory");
  if (bytes > memory->second.bytes) return kInvalidValue;
  return Memory::get().map(address, bytes, memory->second.ordinal, dup(memory->second.fd));
}

DriverCode cuMemSetAccess(Address address, size_t bytes, const MemoryAccess* access, size_t count) {
  BEGIN();
  WAITS();
  const Memory::Block* const block = Memory::get().find(address);
  NEED(block != nullptr && block->bytes == bytes && count > 0, kInvalidValue,
       "cuMemSetAccess of what is not mapped");
  for (size_t i = 0; i < count; ++i) {
    NEED(access[i].location.type == kOnDevice && access[i].flags == kReadAndWrite, kInvalidValue,
         "other access");
    if (access[i].location.id != block->ordinal && control().peersReach == 0) return kInvalidDevice;
  }
  return Memory::get().allowAt(address);
}

// Of whole blocks alone.
DriverCode cuMemGetHandleForAddressRange(void* handle, Address address, size_t bytes, int type,
                                         uint64_t flags) {
  BEGIN();
  const Memory::Block* const block = Memory::get().find(address);
  NEED(type == kAsDmabuf && flags == 0 && control().dmabufs != 0, kInvalidValue,
       "a dma-buf that cannot be had");
  NEED(block != nullptr && block->mapped && block->allowed && block->bytes == bytes, kInvalidValue,
       "a dma-buf of what is not mapped so");
  *static_cast<int*>(handle) = dup(block->fd);
  return kSuccess;
}

DriverCode cuMemUnmap(Address address, size_t bytes) {
  BEGIN();
  WAITS();
  const Memory::Block* const block = Memory::get().find(address);
  NEED(block != nullptr && block->mapped && block->bytes == bytes, kInvalidValue,
       "cuMemUnmap of what is not mapped");
  return Memory::get().unmap(address);
}

}  // namespace eccl::cuda_emulation
