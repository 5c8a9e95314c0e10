// Numbers and barriers across everybody who takes part: the threads of this process by shared memory, the
// processes by a small communicator of their own with one rank each, so that the communicators under test
// carry nothing but the test.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "common/options.h"

namespace eccl::perf {

/// Every thread of every process makes the same calls in the same order. The thread that arrives last talks
/// to the other processes while the rest sleep. After wake() every call returns an error, also those that
/// wait already.
class Exchange {
 public:
  explicit Exchange(int threads) : threads_(threads) {}
  /// Before any other call, if there is more than one process. The communicator stays the caller's.
  void connect(ecclComm_t side, int procs);

  Outcome barrier();
  /// -a's idea of an average. For firstRank the value is that of this process's thread 0; only process 0
  /// prints it.
  Outcome average(int thread, Average how, double* value);
  Outcome sum(int64_t* value);
  /// Elementwise maximum over the threads of a process; `rows` gets one such vector per process, in order.
  Outcome greatestRows(const std::vector<double>& values, std::vector<double>* rows);
  /// One thread of each process only: `all` gets `bytes` of every process.
  Outcome gather(const void* mine, size_t bytes, void* all);

  void wake();

 private:
  struct Slot {
    double value = 0;
    int64_t sum = 0;
    std::vector<double> values, rows;
    Outcome outcome;
  };
  Outcome meet(const std::function<void(Slot&, bool first)>& contribute,
               const std::function<Outcome(Slot&)>& conclude, const std::function<void(const Slot&)>& take);
  Outcome reduce(void* value, ecclDataType_t type, ecclRedOp_t op);

  const int threads_;
  ecclComm_t side_ = nullptr;
  int procs_ = 1;

  std::mutex mutex_;
  std::condition_variable arrivedAll_;
  int arrived_ = 0;
  uint64_t meeting_ = 0;
  bool woken_ = false;
  // Two, by turns: a thread that wakes late still reads its meeting's slot while the next one fills the other.
  Slot slots_[2];
};

}  // namespace eccl::perf
