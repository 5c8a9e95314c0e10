// Tells when memory of this process is unmapped, moved or emptied: what a device knows of it is wrong then.
//
// By userfaultfd(2). It reports such changes of the pages that it was given, and has the thread that makes one
// wait until the report is read. Pages are given to it for the protection of writes, of which none is asked
// for, so nobody faults. It is open to ordinary users; containers may forbid it.
#pragma once

#include <linux/userfaultfd.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "transport/core/ring_memory.h"
#include "transport/core/transport.h"

namespace eccl::transport::verbs {

/// A process has one, from its first use to its end: were the last reader of reports to go, who unmaps memory
/// would wait for ever. Any thread.
///
/// Its thread, and whoever holds its lock, frees no memory: to free may be to unmap, which waits for them.
class MemoryWatch {
 public:
  /// Pages that are watched. Owner: who asked for them. What was watched stays so when this ends, which costs
  /// those who unmap it some microseconds.
  class Mark {
   public:
    ~Mark();
    /// Whether the pages have changed. Certain after a settle() that was true.
    bool changed() const { return changed_.load(std::memory_order_acquire); }

   private:
    friend class MemoryWatch;
    MemoryWatch* watch_ = nullptr;
    uintptr_t begin_ = 0, end_ = 0;
    std::atomic<bool> changed_{false};
    Mark *next_ = nullptr, *previous_ = nullptr;
  };

  /// The process's. Error (system): why the kernel watches nothing. Not logged.
  static Result<MemoryWatch*> ofProcess();
  /// The pages that the memory is in.
  static MemoryRange pagesOf(const MemoryRange& memory);
  /// Watches them. Error (system): it is no memory that can be watched, or one that others can change: shared,
  /// or a file's. Not logged.
  Result<std::unique_ptr<Mark>> watch(const MemoryRange& memory);
  /// Waits, not long, until each change of what is watched that has begun shows in its mark. False: one still
  /// does not.
  bool settle();
  /// Grows whenever a mark changes; as certain as they are.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

 private:
  MemoryWatch() = default;
  Status open();
  void follow();
  void takeReports();

  // In this order, as what is watched must not end before its reports do.
  RingMemory probe_;  // a page that does not change
  Fd reports_;
  std::mutex mutex_;  // of the marks, and from reading a report until they show it
  Mark* marks_ = nullptr;
  std::atomic<uint64_t> changes_ = 0;
};

}  // namespace eccl::transport::verbs
