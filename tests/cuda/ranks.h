// Ranks as threads of this process, on CUDA communicators, and what they have in common.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda/device_memory.h"
#include "eccl/eccl.h"

namespace eccl::test {

inline ecclStream_t asStream(NativeStream stream) {
  return reinterpret_cast<ecclStream_t>(stream);
}

/// Communicators of one kind, one for each rank, made and ended together. Those on GPUs are staged, unless the
/// kind is "lanes".
class Ranks {
 public:
  explicit Ranks(int ranks, const char* kind, int devices = 1)
      : comms_(static_cast<size_t>(ranks)), devices_(devices) {
    Cuda::get();
    const bool lanes = std::string_view(kind) == "lanes";
    setenv("ECCL_DEVICE", lanes ? "cuda" : kind, 1);
    setenv("ECCL_CUDA_LANES", lanes ? "1" : "0", 1);
    std::vector<int> places;
    for (int rank = 0; rank < ranks; ++rank) places.push_back(deviceOf(rank));
    if (ecclCommInitAll(comms_.data(), ranks, places.data()) != ecclSuccess) {
      std::fprintf(stderr, "%s\n", ecclGetLastError(nullptr));
      std::abort();  // nothing can be tested
    }
    unsetenv("ECCL_DEVICE");
    unsetenv("ECCL_CUDA_LANES");
  }
  ~Ranks() {
    each([&](int rank) {
      if (comm(rank) != nullptr) ecclCommDestroy(comm(rank));
    });
  }
  Ranks(const Ranks&) = delete;
  int size() const { return static_cast<int>(comms_.size()); }
  ecclComm_t& comm(int rank) { return comms_[static_cast<size_t>(rank)]; }
  /// Ranks are dealt out to the devices.
  int deviceOf(int rank) const { return rank % devices_; }
  /// By all ranks at once, each in a thread of its own where its device is current.
  void each(const std::function<void(int)>& act) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      threads.emplace_back([&, rank] {
        Cuda::get().use(deviceOf(rank));
        act(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<ecclComm_t> comms_;
  const int devices_;
};

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
