// The heap of this process: whole pages, first fit, in a list of free pieces. And the heaps of its peers,
// each mapped once for all connections.
#include "transport/shm/shared_heap.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/log.h"

namespace eccl::transport {
namespace {

/// What is reserved may be refused (ulimit -v): then half is tried, down to this.
constexpr size_t kMin = size_t{64} << 20;

size_t pageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Twice the machine's memory: address space, whose pages exist when touched, so that it is never in pieces too
/// small while memory is left. But an eighth of what address space there is (2^47 bytes mostly, 2^39 on some
/// ARM machines), or a quarter of what is allowed (ulimit -v): the rest is for the peers' heaps and the
/// application.
size_t wanted() {
  const size_t memory = 2 * pageBytes() * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  const size_t top = std::bit_ceil(static_cast<size_t>(getauxval(AT_EXECFN)));  // which lies at the end of it
  size_t most = top > 0 ? top / 8 : memory;
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    most = std::min(most, static_cast<size_t>(limit.rlim_cur) / 4);
  return std::min(memory, std::max(kMin, most / pageBytes() * pageBytes()));
}

/// Whether these pages are in core dumps. What is mapped is much more than what is used, and the kernel makes
/// each page of a file that it dumps, for everybody who has it: without this, one process that dies could take
/// all memory of its host.
void setDumped(void* at, size_t bytes, bool dumped) {
  madvise(at, bytes, dumped ? MADV_DODUMP : MADV_DONTDUMP);
}

/// So much of a peer's heap is mapped at first, and by doubling that more.
uint64_t mappedFor(uint64_t used, uint64_t total) {
  constexpr uint64_t kFirst = uint64_t{64} << 20;
  return used > total / 2 ? total : std::min(total, std::bit_ceil(std::max(used, kFirst)));
}

using FileId = std::pair<dev_t, ino_t>;

/// What this process has mapped of its peers' heaps, the most of each.
struct PeerHeaps {
  struct Mapped {
    std::weak_ptr<void> memory;
    uint64_t bytes = 0;
  };
  std::mutex mutex;
  std::map<FileId, Mapped> known;
};
PeerHeaps& peerHeaps() {
  static PeerHeaps* const heaps = new PeerHeaps;
  return *heaps;
}

Result<FileId> identify(int fd, uint64_t bytes) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return Status::fromErrno(errno, "fstat on a peer's heap");
  if (static_cast<uint64_t>(about.st_size) != bytes)
    return Status::error(Code::remote, "the peer's heap has not as many bytes as it says");
  return FileId{about.st_dev, about.st_ino};
}

}  // namespace

SharedHeap& SharedHeap::ofThisProcess() {
  static SharedHeap* heap = new SharedHeap;  // outlives whoever still uses its memory at exit
  return *heap;
}

SharedHeap::SharedHeap() {
  // The mutex is held over a fork, so that the child finds the lists whole.
  pthread_atfork([] { ofThisProcess().mutex_.lock(); }, [] { ofThisProcess().mutex_.unlock(); },
                 [] {
                   ofThisProcess().startAnew();
                   ofThisProcess().mutex_.unlock();
                 });
}

void SharedHeap::startAnew() {
  new RingMemory(std::move(memory_));  // stays mapped
  file_.reset();
  window_ = {};
  withdrawn_.count = 0;
  free_.clear();
  given_.clear();
  used_ = 0;
}

Status SharedHeap::open() {
  if (window_.size > 0) return {};
  Status status;
  for (size_t bytes = wanted(); bytes >= kMin; bytes /= 2) {
    Result<SharedMemory> made = createShared("eccl-heap", bytes);
    status = made.status();
    if (!status.ok()) continue;
    file_ = std::move(made->fd);
    memory_ = std::move(made->memory);
    setDumped(memory_.get(), bytes, false);
    window_ = {static_cast<std::byte*>(memory_.get()), bytes, &withdrawn_};
    free_[0] = bytes;
    return {};
  }
  return status;
}

Window SharedHeap::window() {
  std::lock_guard lock(mutex_);
  if (Status status = open(); !status.ok())
    ECCL_INFO("no memory of this process can be used by others in place: %s", status.message().c_str());
  return window_;
}

int SharedHeap::fd() {
  std::lock_guard lock(mutex_);
  return file_.get();
}

// A private mapping of the same file takes the place of the shared one, which happens at once, whatever other
// threads do with the memory. It shows the file until a page is written to, which is why each of them is.
bool SharedHeap::withdraw(uint64_t offset, uint64_t length) {
  std::lock_guard lock(mutex_);
  const uint64_t begin = offset / pageBytes() * pageBytes();
  const uint64_t end = (offset + length + pageBytes() - 1) / pageBytes() * pageBytes();
  if (begin >= end || end > window_.size) return false;
  // First, so that nothing new is said of these pages.
  const uint32_t known = withdrawn_.count;
  if (known < Withdrawn::kKept) withdrawn_.ranges[known] = {begin, end};
  storeRelease(&withdrawn_.count, std::min(known, Withdrawn::kKept) + 1);  // pairs with Withdrawn::touches
  if (mmap(window_.at(begin), end - begin, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_.get(),
           static_cast<off_t>(begin)) == MAP_FAILED) {
    ECCL_WARN("%s", Status::fromErrno(errno, "taking %llu bytes away from other processes",
                                      static_cast<unsigned long long>(end - begin))
                        .message()
                        .c_str());
    return false;
  }
  uint8_t nothing = 0;
  asm("" : "+r"(nothing));  // a compiler that knew the value would read only
  for (uint64_t at = begin; at < end; at += pageBytes())
    __atomic_fetch_or(reinterpret_cast<uint8_t*>(window_.at(at)), nothing, __ATOMIC_RELAXED);
  return true;
}

Result<void*> SharedHeap::allocate(size_t bytes) {
  std::lock_guard lock(mutex_);
  ECCL_TRY(open());
  const size_t page = pageBytes();
  if (bytes <= window_.size) {
    const size_t size = bytes == 0 ? page : (bytes + page - 1) / page * page;
    for (auto at = free_.begin(); at != free_.end(); ++at) {
      if (at->second < size) continue;
      const auto [offset, room] = *at;
      free_.erase(at);
      if (room > size) free_[offset + size] = room - size;
      given_[offset] = size;
      if (offset + size > used()) used_.store(offset + size, std::memory_order_relaxed);
      setDumped(window_.at(offset), size, true);
      return static_cast<void*>(window_.at(offset));
    }
  }
  return Status::error(Code::system,
                       "ecclMemAlloc: no %zu bytes left in the %llu MiB this process can share; free some, or "
                       "raise the limit on its address space (ulimit -v)",
                       bytes, static_cast<unsigned long long>(window_.size >> 20));
}

Status SharedHeap::free(void* pointer) {
  std::lock_guard lock(mutex_);
  auto used = given_.find(window_.offsetOf(static_cast<std::byte*>(pointer)));
  if (window_.size == 0 || used == given_.end()) {
    return Status::error(Code::invalidArgument,
                         "ecclMemFree: %p did not come from ecclMemAlloc, or has been freed", pointer);
  }
  auto [offset, size] = *used;
  given_.erase(used);
  setDumped(window_.at(offset), size, false);
  Status status;
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                static_cast<off_t>(size)) != 0) {
    status = Status::fromErrno(errno, "ecclMemFree: giving %zu bytes back", size);
  }
  if (withdrawn_.touches(offset, size)) return status;  // a peer may write there yet: for nobody's use
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + size) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return status;
    }
  }
  free_[offset] = size;
  return status;
}

Result<PeerHeap> mapPeerHeap(int fd, uint64_t bytes, uint64_t used) {
  ECCL_ASSIGN(const FileId id, identify(fd, bytes));
  PeerHeap heap;
  heap.file = id;
  heap.total = bytes;
  heap.wanted = std::min(used, bytes);
  const uint64_t first = mappedFor(heap.wanted, bytes);
  std::lock_guard lock(peerHeaps().mutex);
  std::erase_if(peerHeaps().known, [](const auto& item) { return item.second.memory.expired(); });
  PeerHeaps::Mapped& kept = peerHeaps().known[id];
  heap.memory = kept.memory.lock();
  if (heap.memory == nullptr || kept.bytes < first) {
    ECCL_ASSIGN(heap.memory, mapShared(fd, bytes, first));
    setDumped(heap.memory.get(), first, false);
    kept = {heap.memory, first};
  }
  heap.window = {static_cast<std::byte*>(heap.memory.get()), kept.bytes};
  return heap;
}

void PeerHeap::extend(uint64_t used) {
  if (memory == nullptr || used <= wanted) return;
  wanted = used;
  const uint64_t more = mappedFor(std::min(used, total), total);
  if (more <= window.size) return;
  std::lock_guard lock(peerHeaps().mutex);
  PeerHeaps::Mapped& kept = peerHeaps().known[file];
  RingMemory larger = kept.memory.lock();
  if (larger == nullptr || kept.bytes < more) {
    // Of old size 0: the same pages once more, elsewhere, without a descriptor.
    void* const at = mremap(memory.get(), 0, more, MREMAP_MAYMOVE);
    if (at == MAP_FAILED) {
      ECCL_INFO("a peer's memory beyond %llu MiB is not used in place: no room to map %llu MiB (%s)",
                static_cast<unsigned long long>(window.size >> 20), static_cast<unsigned long long>(more >> 20),
                std::strerror(errno));
      return;
    }
    setDumped(at, more, false);
    larger = RingMemory(at, [more](void* mapped) { munmap(mapped, more); });
    kept = {larger, more};
  }
  memory = larger;
  window = {static_cast<std::byte*>(memory.get()), kept.bytes};
}

}  // namespace eccl::transport
