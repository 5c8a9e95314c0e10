#include "runtime/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "transport/net/fd.h"

namespace eccl {

UserMemory& UserMemory::get() {
  static UserMemory* memory = new UserMemory;
  return *memory;
}

Result<void*> UserMemory::allocate(size_t bytes) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX - page)
    return Status::error(Code::invalidArgument, "ecclMemAlloc: %zu bytes is beyond memory", bytes);
  size_t size = bytes == 0 ? page : (bytes + page - 1) / page * page;
  // A memfd, not an anonymous mapping: other processes of this host can be given it.
  Fd file(memfd_create("eccl-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return Status::fromErrno(errno, "ecclMemAlloc: memfd_create");
  if (ftruncate(file.get(), static_cast<off_t>(size)) != 0)
    return Status::fromErrno(errno, "ecclMemAlloc: %zu bytes", size);
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status::fromErrno(errno, "ecclMemAlloc: sealing a memfd");
  }
  void* pointer = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (pointer == MAP_FAILED) return Status::fromErrno(errno, "ecclMemAlloc: mapping %zu bytes", size);
  std::lock_guard lock(mutex_);
  blocks_[pointer] = size;
  return pointer;
}

Status UserMemory::free(void* pointer) {
  size_t size;
  {
    std::lock_guard lock(mutex_);
    auto at = blocks_.find(pointer);
    if (at == blocks_.end()) {
      return Status::error(Code::invalidArgument,
                           "ecclMemFree: %p did not come from ecclMemAlloc, or has been freed", pointer);
    }
    size = at->second;
    blocks_.erase(at);
  }
  munmap(pointer, size);
  return {};
}

}  // namespace eccl
