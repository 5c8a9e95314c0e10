#include "transport/core/ring_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>

namespace eccl::transport {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<RingMemory> map(int fd, size_t bytes) {
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (at == MAP_FAILED) {
    return Status::fromErrno(errno, "cannot map %zu bytes of memory (free some, or raise the limit: ulimit -v)",
                             bytes);
  }
  return RingMemory(at, [bytes](void* memory) { munmap(memory, bytes); });
}

/// Beyond the limit ftruncate() sends a signal that ends the process (SIGXFSZ), memory or not.
Status allowsFilesOf(size_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
    return {};
  return Status::error(Code::system,
                       "cannot give shared memory %zu bytes: files may have %llu (raise the limit: ulimit -f)",
                       bytes, static_cast<unsigned long long>(limit.rlim_cur));
}

}  // namespace

Result<RingMemory> mapPrivate(size_t bytes) {
  return map(-1, bytes);
}

Result<SharedMemory> createShared(const char* name, size_t bytes) {
  ECCL_TRY(allowsFilesOf(bytes));
  SharedMemory shared;
  shared.fd = Fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!shared.fd) return Status::fromErrno(errno, "memfd_create");
  if (ftruncate(shared.fd.get(), static_cast<off_t>(bytes)) != 0)
    return Status::fromErrno(errno, "cannot give shared memory %zu bytes", bytes);
  if (fcntl(shared.fd.get(), F_ADD_SEALS, kSeals) != 0)
    return Status::fromErrno(errno, "cannot seal shared memory");
  ECCL_ASSIGN(shared.memory, map(shared.fd.get(), bytes));
  return shared;
}

Result<RingMemory> mapShared(int fd, size_t bytes) {
  return mapShared(fd, bytes, bytes);
}

Result<RingMemory> mapShared(int fd, size_t bytes, size_t first) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return Status::error(Code::remote, "what the peer sent is not sealed shared memory");
  struct stat about {};
  if (fstat(fd, &about) != 0) return Status::fromErrno(errno, "fstat on shared memory");
  if (static_cast<size_t>(about.st_size) != bytes) {
    return Status::error(Code::remote, "the peer's shared memory has %lld bytes where %zu were agreed on",
                         static_cast<long long>(about.st_size), bytes);
  }
  return map(fd, first);
}

}  // namespace eccl::transport
