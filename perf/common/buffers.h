// One rank's stream and memory.
#pragma once

#include "common/names.h"

namespace eccl::perf {

/// Owns them; used by one thread. The communicator must outlive deregistration, so release() comes before it
/// is destroyed; after an abort, handles are simply forgotten.
class RankMemory {
 public:
  RankMemory() = default;
  ~RankMemory() { free(); }
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  /// Two cleared buffers of `bytes`, every page touched, so that no measurement pays for the first touch.
  /// mode is -R's: 0 ordinary memory, 1 that and registered, 2 from ecclMemAlloc and registered.
  Outcome allocate(size_t bytes, int mode, ecclComm_t comm);
  Outcome makeStream();
  Outcome release(ecclComm_t comm);

  char* send() const { return static_cast<char*>(buffers_[0]); }
  char* receive() const { return static_cast<char*>(buffers_[1]); }
  ecclStream_t stream() const { return stream_; }

 private:
  void free();

  void* buffers_[2] = {nullptr, nullptr};
  void* handles_[2] = {nullptr, nullptr};
  ecclStream_t stream_ = nullptr;
  int mode_ = 0;
};

}  // namespace eccl::perf
