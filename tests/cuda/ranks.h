// Ranks as threads of this process, on CUDA communicators, and what they have in common.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/device_memory.h"
#include "eccl/eccl.h"
#include "support/processes.h"

namespace eccl::test {

inline ecclStream_t asStream(NativeStream stream) {
  return reinterpret_cast<ecclStream_t>(stream);
}

/// Which of several processes this is, and the ids of the communicators that they make, in order, in memory
/// that they share.
struct Process {
  static constexpr int kMost = 256;
  struct Ids {
    ecclUniqueId ids[kMost];
    std::atomic<int> made{0}, arrived{0}, agreed{0};
  };
  int number = 0, processes = 1;
  Ids* shared = nullptr;
  int joined = 0, met = 0, agreed = 0;

  /// Of the next communicator.
  ecclUniqueId nextId() {
    if (joined == kMost) std::abort();
    if (number == 0) {
      Cuda::need(ecclGetUniqueId(&shared->ids[joined]) == ecclSuccess ? cu::kSuccess : cu::kUnknown, "an id");
      ++shared->made;
    }
    while (shared->made <= joined) std::this_thread::yield();
    return shared->ids[joined++];
  }
  /// All processes come here.
  void meet() {
    ++shared->arrived;
    for (++met; shared->arrived < met * processes;) std::this_thread::yield();
  }
  /// All processes come here. Of how many that holds.
  int count(bool holds) {
    shared->agreed += holds;
    meet();
    const int all = shared->agreed;
    meet();
    return all - std::exchange(agreed, all);
  }
};

/// Communicators to be made are of this kind: "host", or on GPUs. There calls are staged ("cuda"), or go by
/// lanes, all of whose messages pass through the host if they are "relayed", and none if they are "lanes".
inline void askFor(const char* kind) {
  const bool relayed = std::string_view(kind) == "relayed",
             lanes = relayed || std::string_view(kind) == "lanes";
  setenv("ECCL_DEVICE", lanes ? "cuda" : kind, 1);
  setenv("ECCL_CUDA_LANES", lanes ? "1" : "0", 1);
  setenv("ECCL_CUDA_RELAY", relayed ? "2" : "0", 1);
}
inline void askForNothing() {
  for (const char* name : {"ECCL_DEVICE", "ECCL_CUDA_LANES", "ECCL_CUDA_RELAY"}) unsetenv(name);
}

/// Communicators of one kind (askFor()), one for each rank of this process, made and ended together.
class Ranks {
 public:
  explicit Ranks(int ranks, const char* kind, int devices = 1) : Ranks(nullptr, ranks, kind, devices) {}
  /// Ranks are dealt out to the processes, and to as many devices as there are.
  Ranks(Process* process, int ranks, const char* kind, int devices = 1)
      : comms_(static_cast<size_t>(ranks)), devices_(std::min(devices, Cuda::get().devices())) {
    if (process != nullptr) number_ = process->number, processes_ = process->processes;
    meeting_ = std::make_unique<std::barrier<>>(here());
    askFor(kind);
    if (process == nullptr) {
      std::vector<int> places;
      for (int rank = 0; rank < ranks; ++rank) places.push_back(deviceOf(rank));
      need(ecclCommInitAll(comms_.data(), ranks, places.data()));
    } else {
      const ecclUniqueId id = process->nextId();
      each([&](int rank) { need(ecclCommInitRank(&comm(rank), ranks, id, rank)); });
    }
    askForNothing();
  }
  ~Ranks() {
    each([&](int rank) {
      if (comm(rank) != nullptr) ecclCommDestroy(comm(rank));
    });
  }
  Ranks(const Ranks&) = delete;
  int size() const { return static_cast<int>(comms_.size()); }
  bool isHere(int rank) const { return rank % processes_ == number_; }
  int here() const {
    int ranks = 0;
    for (int rank = 0; rank < size(); ++rank) ranks += isHere(rank);
    return ranks;
  }
  ecclComm_t& comm(int rank) { return comms_[static_cast<size_t>(rank)]; }
  /// Those of a process are dealt out to the devices.
  int deviceOf(int rank) const { return rank / processes_ % devices_; }
  /// All ranks of this process come here.
  void meet() { meeting_->arrive_and_wait(); }
  /// By all ranks of this process at once, each in a thread of its own where its device is current.
  void each(const std::function<void(int)>& act) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      if (!isHere(rank)) continue;
      threads.emplace_back([&, rank] {
        Cuda::get().use(deviceOf(rank));
        act(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static void need(ecclResult_t made) {
    if (made == ecclSuccess) return;
    std::fprintf(stderr, "%s\n", ecclGetLastError(nullptr));
    std::abort();  // nothing can be tested
  }

  std::vector<ecclComm_t> comms_;
  const int devices_;
  int number_ = 0, processes_ = 1;
  std::unique_ptr<std::barrier<>> meeting_;
};

/// The communicator fails within `limit` seconds, and its sentence says why.
inline void expectFailed(ecclComm_t comm, const ::testing::Matcher<std::string>& why, double limit) {
  ecclResult_t error = ecclSuccess;
  for (const double start = now(); error == ecclSuccess && now() - start < limit;)
    ecclCommGetAsyncError(comm, &error);
  EXPECT_NE(error, ecclSuccess);
  EXPECT_THAT(ecclGetLastError(comm), why);
}

/// Nothing that a driver or GPU would not forgive has happened, and device 0 is current.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ECCL_DEBUG", "NONE", 1);
    Cuda::get().use(0);
  }
  void TearDown() override {
    if (Cuda::get().emulated()) { EXPECT_EQ(Cuda::get().control->violations, 0); }
  }
};

/// A word that streams can wait for, released by the host.
class HostWord {
 public:
  HostWord() {
    void* memory = nullptr;
    Cuda::need(Cuda::get().cuMemHostAlloc(&memory, 64, cu::kHostPortable | cu::kHostMapped), "cuMemHostAlloc");
    host_ = static_cast<uint64_t*>(memory);
    *host_ = 0;
    Cuda::need(Cuda::get().cuMemHostGetDevicePointer(&device_, memory, 0), "cuMemHostGetDevicePointer");
  }
  void heldBackBy(NativeStream stream) {
    Cuda::need(Cuda::get().cuStreamWaitValue64(stream, device_, 1, cu::kWaitAtLeast), "cuStreamWaitValue64");
  }
  void release() { __atomic_store_n(host_, uint64_t{1}, __ATOMIC_RELEASE); }

 private:
  uint64_t* host_;
  Address device_ = 0;
};

}  // namespace eccl::test
