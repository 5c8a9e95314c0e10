// ecclMemAlloc and registration.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "base/status.h"

namespace eccl {

/// Anonymous shared mappings by address. One per process, because ecclMemFree is given nothing but the pointer.
/// Any thread.
class UserMemory {
 public:
  static UserMemory& get();
  Result<void*> allocate(size_t bytes);
  Status free(void* pointer);

 private:
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
};

}  // namespace eccl
