#include "transport/verbs/memory_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "base/once_by_key.h"

namespace eccl::transport::verbs {
namespace {

// For headers that are older than Linux 5.11.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

constexpr int kLooks = 200;  // some milliseconds, where the processor is another's

size_t pageBytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Whether this is memory of the process alone, none of a file: "7f..-7f.. rw-p 00000000 00:00 0 [heap]".
bool isOwn(uint64_t begin, uint64_t end) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; begin < end && std::getline(maps, line);) {
    unsigned long long first = 0, last = 0, inode = 0;
    char rights[5] = "";
    if (std::sscanf(line.c_str(), "%llx-%llx %4s %*x %*s %llu", &first, &last, rights, &inode) != 4)
      return false;
    if (last <= begin) continue;
    if (first > begin || rights[3] != 'p' || inode != 0) return false;
    begin = last;
  }
  return begin >= end;
}

/// Until Linux 5.15 a change under way might not be seen where there were two.
bool kernelIsTooOld() {
  utsname name{};
  int major = 0, minor = 0;
  return uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2 ||
         std::pair(major, minor) < std::pair(5, 15);
}

bool registerPages(int fd, uint64_t begin, uint64_t bytes, uint64_t mode) {
  uffdio_register asked{};
  asked.range = {begin, bytes};
  asked.mode = mode;
  return ioctl(fd, UFFDIO_REGISTER, &asked) == 0;
}

}  // namespace

// A forked child has one of its own.
Result<MemoryWatch*> MemoryWatch::ofProcess() {
  return OnceByKey<pid_t, MemoryWatch*>::get().at(getpid(), []() -> Result<MemoryWatch*> {
    std::unique_ptr<MemoryWatch> watch(new MemoryWatch);
    ECCL_TRY(watch->open());
    return watch.release();
  });
}

Status MemoryWatch::open() {
  if (kernelIsTooOld()) return Status::error(Code::system, "userfaultfd is not to be had before Linux 5.15");
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
  ECCL_ASSIGN(Thread thread, System::real().start("eccl-memory", [this] { follow(); }));
  thread.detach();
  return {};
}

void MemoryWatch::follow() {
  for (pollfd watched{reports_.get(), POLLIN, 0};;) {
    if (poll(&watched, 1, -1) < 1) continue;
    std::lock_guard lock(mutex_);
    takeReports();
  }
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
      if (begin >= each->end_ || each->begin_ >= end) continue;
      each->changed_.store(true, std::memory_order_release);
      changes_.fetch_add(1, std::memory_order_release);
    }
  }
}

MemoryRange MemoryWatch::pagesOf(const MemoryRange& memory) {
  const size_t page = pageBytes();
  const auto address = reinterpret_cast<uintptr_t>(memory.base);
  const size_t before = address % page;
  return {memory.base - before, (before + memory.bytes + page - 1) / page * page};
}

// Memory that is shared, or a file's, can change in ways that are not reported: others cut the file short.
Result<std::unique_ptr<MemoryWatch::Mark>> MemoryWatch::watch(const MemoryRange& memory) {
  const MemoryRange pages = pagesOf(memory);
  const auto begin = reinterpret_cast<uintptr_t>(pages.base);
  if (!isOwn(begin, begin + pages.bytes)) return Status::error(Code::system, "others can change it");
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

}  // namespace eccl::transport::verbs
