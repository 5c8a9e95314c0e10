#include "transport/shm/shared_heap.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace eccl {
namespace {

/// What is reserved may be refused (ulimit -v): then half is tried, down to this.
constexpr size_t kLeast = size_t{64} << 20;

size_t pageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Twice the machine's memory: address space, whose pages exist when touched, so that it is never in pieces too
/// small while memory is left.
size_t wanted() {
  return 2 * pageBytes() * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
}

using FileId = std::pair<dev_t, ino_t>;

Result<FileId> identify(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return Status::fromErrno(errno, "fstat on a peer's heap");
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
  used_.clear();
}

Status SharedHeap::open() {
  if (window_.size > 0) return {};
  Status status;
  for (size_t bytes = wanted(); bytes >= kLeast; bytes /= 2) {
    Result<SharedMemory> made = createShared("eccl-heap", bytes);
    status = made.status();
    if (!status.ok()) continue;
    file_ = std::move(made->fd);
    memory_ = std::move(made->memory);
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
  for (uint64_t at = begin; at < end; at += pageBytes())
    __atomic_fetch_or(reinterpret_cast<uint8_t*>(window_.at(at)), uint8_t{0}, __ATOMIC_RELAXED);
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
      used_[offset] = size;
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
  auto used = used_.find(window_.offsetOf(static_cast<std::byte*>(pointer)));
  if (window_.size == 0 || used == used_.end()) {
    return Status::error(Code::invalidArgument,
                         "ecclMemFree: %p did not come from ecclMemAlloc, or has been freed", pointer);
  }
  auto [offset, size] = *used;
  used_.erase(used);
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

Result<PeerHeap> mapPeerHeap(int fd, uint64_t bytes) {
  static std::mutex* mutex = new std::mutex;
  static auto* known = new std::map<FileId, std::weak_ptr<void>>;
  ECCL_ASSIGN(const FileId id, identify(fd));
  std::lock_guard lock(*mutex);
  std::weak_ptr<void>& kept = (*known)[id];
  RingMemory memory = kept.lock();
  if (memory == nullptr) {
    ECCL_ASSIGN(memory, mapShared(fd, bytes));
    kept = memory;
  }
  return PeerHeap{memory, {static_cast<std::byte*>(memory.get()), bytes}};
}

}  // namespace eccl
