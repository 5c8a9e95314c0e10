#include "transport/verbs/memory_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"

namespace eccl::transport::verbs {
namespace {

// Of Linux 5.11 and 5.13, for headers that are older.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFDIO_REGISTER_MODE_MINOR
#define UFFDIO_REGISTER_MODE_MINOR (uint64_t{1} << 2)
#endif

constexpr int kLooks = 200;  // some milliseconds, where the processor is another's

/// The process's MemoryWatch. Of `process` alone: a forked child has none.
struct OfProcess {
  std::mutex mutex;
  std::weak_ptr<MemoryWatch> watch;
  pid_t process = 0;
};
OfProcess& ofProcess() {
  static OfProcess one;
  return one;
}

size_t pageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

bool registerPages(int fd, uint64_t begin, uint64_t bytes, uint64_t mode) {
  uffdio_register asked{};
  asked.range = {begin, bytes};
  asked.mode = mode;
  return ioctl(fd, UFFDIO_REGISTER, &asked) == 0;
}

}  // namespace

Result<std::shared_ptr<MemoryWatch>> MemoryWatch::ofProcess() {
  OfProcess& its = verbs::ofProcess();
  std::lock_guard lock(its.mutex);
  std::shared_ptr<MemoryWatch> watch = its.process == getpid() ? its.watch.lock() : nullptr;
  if (watch != nullptr) return watch;
  watch.reset(new MemoryWatch);
  ECCL_TRY(watch->open());
  its.watch = watch;
  its.process = getpid();
  return watch;
}

Status MemoryWatch::open() {
  reports_ = Fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!reports_) {
    const bool forbidden = errno == EPERM;
    return Status::fromErrno(errno, "userfaultfd is not to be had%s",
                             forbidden ? " (a container's seccomp profile may forbid it)" : "");
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP |
                 UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (ioctl(reports_.get(), UFFDIO_API, &api) != 0)
    return Status::fromErrno(errno, "this kernel's userfaultfd does not report what is unmapped");
  ECCL_ASSIGN(probe_, mapPrivate(pageBytes()));
  if (!registerPages(reports_.get(), reinterpret_cast<uintptr_t>(probe_.get()), pageBytes(),
                     UFFDIO_REGISTER_MODE_WP))
    return Status::fromErrno(errno, "this kernel's userfaultfd takes no pages for the protection of writes");
  ending_ = Fd(System::real().eventFd());
  if (!ending_) return Status::fromErrno(errno, "no eventfd");
  ECCL_ASSIGN(thread_, System::real().start("eccl-memory", [this] { follow(); }));
  return {};
}

MemoryWatch::~MemoryWatch() {
  if (!thread_.joinable()) return;
  System::real().ringEvent(ending_.get());
  thread_.join();
}

// It closes what it reads from: afterwards nobody waits for a report to be read, whatever is freed.
void MemoryWatch::follow() {
  pollfd watched[] = {{reports_.get(), POLLIN, 0}, {ending_.get(), POLLIN, 0}};
  while ((watched[1].revents & POLLIN) == 0) {
    if (poll(watched, 2, -1) < 0) continue;
    std::lock_guard lock(mutex_);
    takeReports();
  }
  reports_.reset();
}

void MemoryWatch::takeReports() {
  uffd_msg report;
  while (read(reports_.get(), &report, sizeof report) == sizeof report) {
    uint64_t begin = report.arg.remove.start, end = report.arg.remove.end;
    if (report.event == UFFD_EVENT_PAGEFAULT) continue;  // nothing is protected
    if (report.event == UFFD_EVENT_REMAP) {
      begin = report.arg.remap.from;
      end = begin + report.arg.remap.len;
    }
    for (Mark* each = marks_; each != nullptr; each = each->next_) {
      if (begin < each->end_ && each->begin_ < end) each->changed_.store(true, std::memory_order_release);
    }
  }
}

MemoryRange MemoryWatch::pagesOf(const MemoryRange& memory) {
  const size_t page = pageBytes();
  const auto address = reinterpret_cast<uintptr_t>(memory.base);
  const size_t before = address % page;
  return {memory.base - before, (before + memory.bytes + page - 1) / page * page};
}

// Memory that is shared, or a file's, can change in ways that are not reported here (a file is cut short). The
// kernel tells it apart: faults in pages that others have filled (MODE_MINOR) there are in such memory alone.
Result<std::unique_ptr<MemoryWatch::Mark>> MemoryWatch::watch(const MemoryRange& memory) {
  const MemoryRange pages = pagesOf(memory);
  const auto begin = reinterpret_cast<uintptr_t>(pages.base);
  if (registerPages(reports_.get(), begin, pages.bytes, UFFDIO_REGISTER_MODE_MINOR)) {
    uffdio_range range{begin, pages.bytes};
    ioctl(reports_.get(), UFFDIO_UNREGISTER, &range);
    return Status::error(Code::system, "it is shared");
  }
  if (!registerPages(reports_.get(), begin, pages.bytes, UFFDIO_REGISTER_MODE_WP))
    return Status::fromErrno(errno, "userfaultfd does not take it");
  auto mark = std::make_unique<Mark>();
  mark->watch_ = this;
  mark->begin_ = begin;
  mark->end_ = begin + pages.bytes;
  std::lock_guard lock(mutex_);
  mark->next_ = marks_;
  if (marks_ != nullptr) marks_->previous_ = mark.get();
  marks_ = mark.get();
  return mark;
}

MemoryWatch::Mark::~Mark() {
  std::lock_guard lock(watch_->mutex_);
  (previous_ != nullptr ? previous_->next_ : watch_->marks_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

// From before a change until its report has been read the kernel refuses to change protections (EAGAIN).
bool MemoryWatch::settle() {
  for (int i = 0; i < kLooks; ++i) {
    {
      std::lock_guard lock(mutex_);
      uffdio_writeprotect nothing{};
      nothing.range = {reinterpret_cast<uintptr_t>(probe_.get()), pageBytes()};
      if (ioctl(reports_.get(), UFFDIO_WRITEPROTECT, &nothing) == 0) return true;
      if (errno != EAGAIN) return false;
      takeReports();
    }
    System::real().yield();
  }
  return false;
}

void MemoryWatch::closeAfterFork() {
  thread_.closeAfterFork();
  reports_.reset();
  ending_.reset();
}

}  // namespace eccl::transport::verbs
