// An executor as a module (base/module.h), libeccl_NAME.so: what moves data in one kind of device's memory. Its
// function comes from ECCL_EXECUTOR_MODULE(entry) in one of its files.
#pragma once

#include "base/module.h"
#include "runtime/executor/executors.h"

namespace eccl::runtime {

/// What a module brings. Static, and constant.
struct ExecutorEntry {
  /// The kind of communicator for `device`, or for the one that is current in this thread if that is negative.
  /// `descriptors`: its memory may be shared between processes by these.
  /// Error: there is no such device, or no driver for it; the sentence says what to do. Not logged. Any thread.
  Result<ExecutorKind> (*find)(int device, bool descriptors);
  /// A line for each device, for people.
  std::vector<std::string> (*describe)();
};

/// What the one function of a module returns. Static, and constant.
struct ExecutorModule : ModuleHeader {
  explicit ExecutorModule(const ExecutorEntry* its) : entry(its) {}
  const ExecutorEntry* entry;
};

}  // namespace eccl::runtime

/// `executorEntry`: an ExecutorEntry that lives as long as the process. Outside any namespace.
#define ECCL_EXECUTOR_MODULE(executorEntry)                                                            \
  extern "C" __attribute__((visibility("default"))) const eccl::ModuleHeader* eccl_executor_module() { \
    static const eccl::runtime::ExecutorModule module(&executorEntry);                                 \
    return &module;                                                                                    \
  }
