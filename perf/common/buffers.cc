#include "common/buffers.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace eccl::perf {

Outcome RankMemory::allocate(size_t bytes, int mode, ecclComm_t comm) {
  mode_ = mode;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  bytes = (std::max<size_t>(bytes, 1) + page - 1) / page * page;
  for (int i = 0; i < 2; ++i) {
    if (mode == 2) {
      TOOLS_TRY(Outcome::library(ecclMemAlloc(&buffers_[i], bytes), nullptr,
                                 formatted("ecclMemAlloc of %zu bytes", bytes)));
    } else if (posix_memalign(&buffers_[i], page, bytes) != 0) {
      buffers_[i] = nullptr;
      return Outcome::error(Exit::system, "no memory for a buffer of %zu bytes; lower --maxbytes", bytes);
    }
    std::memset(buffers_[i], 0, bytes);
    if (mode != 0)
      TOOLS_TRY(Outcome::library(ecclCommRegister(comm, buffers_[i], bytes, &handles_[i]), comm,
                                 formatted("ecclCommRegister of %zu bytes", bytes)));
  }
  return {};
}

Outcome RankMemory::makeStream() {
  return Outcome::library(ecclStreamCreate(&stream_), nullptr, "ecclStreamCreate");
}

Outcome RankMemory::release(ecclComm_t comm) {
  if (stream_ != nullptr) TOOLS_TRY(Outcome::library(ecclStreamDestroy(stream_), nullptr, "ecclStreamDestroy"));
  stream_ = nullptr;
  for (void*& handle : handles_) {
    if (handle != nullptr)
      TOOLS_TRY(Outcome::library(ecclCommDeregister(comm, handle), comm, "ecclCommDeregister"));
    handle = nullptr;
  }
  free();
  return {};
}

void RankMemory::free() {
  for (void*& buffer : buffers_) {
    if (buffer == nullptr) continue;
    if (mode_ != 2)
      std::free(buffer);
    else
      static_cast<void>(ecclMemFree(buffer));  // nothing follows that a failure could spoil
    buffer = nullptr;
  }
}

}  // namespace eccl::perf
