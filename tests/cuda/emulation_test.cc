// The emulated driver's own rules: what a GPU or a real driver would not forgive is refused, counted and named.
// Were one lost, other tests would pass with what fails on a GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

#include "cuda/device_memory.h"
#include "support/sanitizers.h"

namespace eccl {
namespace {

using test::Cuda;
using test::cu::Address;
using test::cu::DriverCode;
using ::testing::HasSubstr;

class CudaEmulation : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!cuda.emulated()) GTEST_SKIP() << "this is the machine's own driver";
    cuda.use(0);
  }
  /// `call` is refused with this code, as a violation whose text has `name` in it.
  template <class Call>
  void expectRefused(DriverCode code, const std::string& name, const Call& call) const {
    const int64_t before = cuda.control->violations;
    testing::internal::CaptureStderr();
    const DriverCode result = call();
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(name));
    EXPECT_EQ(result, code) << name;
    EXPECT_EQ(cuda.control->violations, before + 1) << name;
  }
  Address allocate(size_t bytes) const {
    Address address = 0;
    Cuda::need(cuda.cuMemAlloc(&address, bytes), "cuMemAlloc");
    return address;
  }

  Cuda& cuda = Cuda::get();
};

/// Something in a stream that goes on until it is told to end.
class StreamGate {
 public:
  explicit StreamGate(test::NativeStream stream) {
    Cuda::need(
        Cuda::get().cuLaunchHostFunc(
            stream, [](void* gate) { static_cast<StreamGate*>(gate)->opened_.get_future().wait(); }, this),
        "cuLaunchHostFunc");
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
};

/// Whether a stream has come to this mark, which is put into it.
class StreamMark {
 public:
  explicit StreamMark(test::NativeStream stream) {
    Cuda::need(Cuda::get().cuLaunchHostFunc(
                   stream, [](void* mark) { *static_cast<std::atomic<bool>*>(mark) = true; }, &reached_),
               "cuLaunchHostFunc");
  }
  bool reached() const { return reached_; }
  bool isReachedSoon() const {
    for (int looks = 0; looks < 10000 && !reached_; ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return reached_;
  }

 private:
  std::atomic<bool> reached_{false};
};

TEST_F(CudaEmulation, UnknownFunctionsFailByName) {
  void* const library = dlopen(ECCL_CUDA_EMULATION, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  const auto find = reinterpret_cast<DriverCode (*)(const char*, void**, int, uint64_t, int*)>(
      dlsym(library, "cuGetProcAddress_v2"));
  void* found = this;
  expectRefused(test::cu::kNotFound, "cuMemAdvise is not emulated", [&] {
    return find("cuMemAdvise", &found, test::cu::kOldestDriver, test::cu::kLegacyStreams, nullptr);
  });
  EXPECT_EQ(found, nullptr);
  test::cu::Function kernel = nullptr;
  expectRefused(test::cu::kNotFound, "there is no kernel eccl_lanes_int7",
                [&] { return cuda.cuModuleGetFunction(&kernel, nullptr, "eccl_lanes_int7"); });
}

TEST_F(CudaEmulation, TheProcessorCannotTouchDeviceMemory) {
  const Address memory = allocate(64);
  const pid_t child = fork();
  if (child == 0) {
    *reinterpret_cast<volatile char*>(memory) = 1;
    _exit(EXIT_SUCCESS);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  // A sanitizer says what happened, and exits.
  EXPECT_TRUE(kSanitized ? status != 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  EXPECT_EQ(cuda.cuMemFree(memory), test::cu::kSuccess);
}

TEST_F(CudaEmulation, MemoryIsUsedWhileItIsThereAndWithinIt) {
  const test::DeviceStream stream;
  const Address memory = allocate(100);
  const auto fill = [&](Address at, size_t bytes) {
    return cuda.cuMemsetD8Async(at, 1, bytes, stream.native());
  };
  EXPECT_EQ(fill(memory, 100), test::cu::kSuccess);
  expectRefused(test::cu::kInvalidValue, "more than the block has", [&] { return fill(memory + 1, 100); });
  stream.synchronize();
  EXPECT_EQ(cuda.cuMemFree(memory), test::cu::kSuccess);
  expectRefused(test::cu::kInvalidValue, "which is freed", [&] { return fill(memory, 1); });
  expectRefused(test::cu::kInvalidValue, "was freed before", [&] { return cuda.cuMemFree(memory); });
  char ordinary = 0;
  expectRefused(test::cu::kInvalidValue, "no memory that CUDA knows",
                [&] { return fill(reinterpret_cast<Address>(&ordinary), 1); });
  EXPECT_NE(allocate(100), memory) << "addresses are not given out again";
}

TEST_F(CudaEmulation, MemoryIsFreedWhenNoStreamHasAnythingToDo) {
  const test::DeviceStream stream;
  const Address memory = allocate(64);
  StreamGate gate(stream.native());
  std::atomic<bool> freed{false};
  std::thread other([&] {
    cuda.use(0);
    EXPECT_EQ(cuda.cuMemFree(memory), test::cu::kSuccess);
    freed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(freed);
  gate.open();
  other.join();
}

TEST_F(CudaEmulation, HostFunctionsMayNotCallCuda) {
  const test::DeviceStream stream;
  expectRefused(test::cu::kNotPermitted, "cuMemFree is called in a host function", [&] {
    DriverCode inside = test::cu::kSuccess;
    const auto call = [](void* result) { *static_cast<DriverCode*>(result) = Cuda::get().cuMemFree(0); };
    EXPECT_EQ(cuda.cuLaunchHostFunc(stream.native(), call, &inside), test::cu::kSuccess);
    stream.synchronize();
    return inside;
  });
}

TEST_F(CudaEmulation, TheNullStreamAndBlockingStreamsWaitForEachOther) {
  const test::DeviceStream blocking(true), other;
  for (const bool nullFirst : {false, true}) {
    const auto first = nullFirst ? nullptr : blocking.native(),
               second = nullFirst ? blocking.native() : nullptr;
    StreamGate gate(first);
    const StreamMark behind(second), beside(other.native());
    EXPECT_TRUE(beside.isReachedSoon()) << "a stream that does not block goes on";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(behind.reached()) << nullFirst;
    gate.open();
    EXPECT_TRUE(behind.isReachedSoon()) << nullFirst;
    blocking.synchronize();
  }
}

TEST_F(CudaEmulation, StreamsAreThereAndHaveAContext) {
  test::NativeStream gone = nullptr;
  Cuda::need(cuda.cuStreamCreate(&gone, 0), "cuStreamCreate");
  EXPECT_EQ(cuda.cuStreamDestroy(gone), test::cu::kSuccess);
  const Address memory = allocate(8);
  expectRefused(test::cu::kInvalidHandle, "is no stream, or was destroyed",
                [&] { return cuda.cuMemsetD8Async(memory, 0, 8, gone); });
  expectRefused(test::cu::kInvalidHandle, "is no stream", [&] { return cuda.cuStreamDestroy(gone); });
  std::thread([&] {
    Address address = 0;
    expectRefused(test::cu::kInvalidContext, "without a current context",
                  [&] { return cuda.cuMemAlloc(&address, 8); });
  }).join();
}

TEST_F(CudaEmulation, WordsAreAligned) {
  const test::DeviceStream stream;
  const Address memory = allocate(16);
  expectRefused(test::cu::kInvalidValue, "misaligned", [&] {
    return cuda.cuStreamWaitValue64(stream.native(), memory + 4, 0, test::cu::kWaitAtLeast);
  });
  expectRefused(test::cu::kInvalidValue, "misaligned",
                [&] { return cuda.cuStreamWriteValue64(stream.native(), memory + 1, 0, 0); });
  expectRefused(test::cu::kInvalidValue, "not emulated",
                [&] { return cuda.cuStreamWaitValue64(stream.native(), memory, 0, 77); });
}

TEST_F(CudaEmulation, WhatACaptureDoesNotForgiveSpoilsIt) {
  const test::DeviceStream stream(true);
  const Address memory = allocate(8);
  test::cu::Event outside = nullptr;
  Cuda::need(cuda.cuEventCreate(&outside, 0), "cuEventCreate");
  Cuda::need(cuda.cuEventRecord(outside, nullptr), "cuEventRecord");
  const auto captured = [&](int mode, const auto& during) {
    return test::DeviceGraph(stream, during, mode, true).captured();
  };
  constexpr int kGlobal = test::DeviceGraph::kGlobal, kThread = test::DeviceGraph::kThread;
  const auto allocateElsewhere = [&](bool refused) {
    std::thread([&] {
      cuda.use(0);
      Address address = 0;
      const auto call = [&] { return cuda.cuMemAlloc(&address, 8); };
      if (refused)
        expectRefused(test::cu::kCaptureUnsupported, "while a stream is captured", call);
      else
        EXPECT_EQ(call(), test::cu::kSuccess);
    }).join();
  };
  EXPECT_EQ(captured(kGlobal, [&] { allocateElsewhere(true); }), test::cu::kCaptureInvalidated);
  EXPECT_EQ(captured(kThread, [&] { allocateElsewhere(false); }), test::cu::kSuccess);
  const auto null = [&] {
    expectRefused(test::cu::kCaptureImplicit, "the NULL stream is used",
                  [&] { return cuda.cuMemsetD8Async(memory, 0, 8, nullptr); });
  };
  EXPECT_EQ(captured(kThread, null), test::cu::kCaptureInvalidated);
  const auto wait = [&] {
    expectRefused(test::cu::kCaptureIsolation, "waits for an event from outside",
                  [&] { return cuda.cuStreamWaitEvent(stream.native(), outside, 0); });
  };
  EXPECT_EQ(captured(kThread, wait), test::cu::kSuccess) << "the call is refused, and leaves no node";
  const auto synchronize = [&] {
    expectRefused(test::cu::kCaptureUnsupported, "cuStreamSynchronize",
                  [&] { return cuda.cuStreamSynchronize(stream.native()); });
  };
  EXPECT_EQ(captured(kThread, synchronize), test::cu::kCaptureInvalidated);
  EXPECT_EQ(cuda.cuEventDestroy(outside), test::cu::kSuccess);
}

TEST_F(CudaEmulation, MemoryIsNotLentToItsOwnProcess) {
  const Address memory = allocate(64);
  test::cu::IpcHandle handle{};
  expectRefused(test::cu::kInvalidValue, "not where a block",
                [&] { return cuda.cuIpcGetMemHandle(&handle, memory + 8); });
  ASSERT_EQ(cuda.cuIpcGetMemHandle(&handle, memory), test::cu::kSuccess);
  Address address = 0;
  expectRefused(test::cu::kInvalidContext, "in the process whose memory it is",
                [&] { return cuda.cuIpcOpenMemHandle(&address, handle, test::cu::kLazyPeerAccess); });
  expectRefused(test::cu::kInvalidValue, "one flag",
                [&] { return cuda.cuIpcOpenMemHandle(&address, handle, 0); });
}

// Memory with descriptors: by whole pages, in the right order, and only where it may be touched.
TEST_F(CudaEmulation, MappedMemoryIsStrict) {
  using test::cu::MemoryAccess;
  constexpr size_t kPage = 2 << 20;
  test::cu::MemoryProperties its;
  its.type = test::cu::kPinnedMemory;
  its.handleTypes = test::cu::kByDescriptor;
  its.location = {test::cu::kOnDevice, 0};
  test::cu::MemoryHandle handle = 0;
  expectRefused(test::cu::kInvalidValue, "not whole pages",
                [&] { return cuda.cuMemCreate(&handle, 4096, &its, 0); });
  ASSERT_EQ(cuda.cuMemCreate(&handle, kPage, &its, 0), test::cu::kSuccess);
  Address address = 0;
  ASSERT_EQ(cuda.cuMemAddressReserve(&address, kPage, kPage, 0, 0), test::cu::kSuccess);
  EXPECT_EQ(address % kPage, 0U);
  const MemoryAccess access{its.location, test::cu::kReadAndWrite};
  expectRefused(test::cu::kInvalidValue, "not mapped",
                [&] { return cuda.cuMemSetAccess(address, kPage, &access, 1); });
  ASSERT_EQ(cuda.cuMemMap(address, kPage, 0, handle, 0), test::cu::kSuccess);
  uint64_t word = 7;
  const auto put = [&] { return cuda.cuMemcpy(address + 8, reinterpret_cast<Address>(&word), sizeof word); };
  expectRefused(test::cu::kInvalidValue, "cuMemcpy", put);
  ASSERT_EQ(cuda.cuMemSetAccess(address, kPage, &access, 1), test::cu::kSuccess);
  EXPECT_EQ(put(), test::cu::kSuccess);
  expectRefused(test::cu::kInvalidValue, "is no such memory", [&] { return cuda.cuMemFree(address); });
  test::cu::IpcHandle ipc{};
  expectRefused(test::cu::kInvalidValue, "not where a block",
                [&] { return cuda.cuIpcGetMemHandle(&ipc, address); });
  int dmabuf = -1;
  const auto part = [&](size_t bytes) {
    return cuda.cuMemGetHandleForAddressRange(&dmabuf, address, bytes, test::cu::kAsDmabuf, 0);
  };
  expectRefused(test::cu::kInvalidValue, "not mapped so", [&] { return part(kPage / 2); });
  ASSERT_EQ(part(kPage), test::cu::kSuccess);
  uint64_t there = 0;
  EXPECT_EQ(pread(dmabuf, &there, sizeof there, 8), static_cast<ssize_t>(sizeof there));
  EXPECT_EQ(there, word);
  close(dmabuf);
  // The same bytes, where another process, or this one, maps the descriptor; also when the first is no more.
  int descriptor = -1;
  ASSERT_EQ(cuda.cuMemExportToShareableHandle(&descriptor, handle, test::cu::kByDescriptor, 0),
            test::cu::kSuccess);
  test::cu::MemoryHandle again = 0;
  ASSERT_EQ(cuda.cuMemImportFromShareableHandle(
                &again, reinterpret_cast<void*>(static_cast<intptr_t>(descriptor)), test::cu::kByDescriptor),
            test::cu::kSuccess);
  close(descriptor);
  expectRefused(test::cu::kInvalidValue, "still mapped", [&] { return cuda.cuMemAddressFree(address, kPage); });
  EXPECT_EQ(cuda.cuMemUnmap(address, kPage), test::cu::kSuccess);
  EXPECT_EQ(cuda.cuMemRelease(handle), test::cu::kSuccess);
  expectRefused(test::cu::kInvalidValue, "freed", put);
  expectRefused(test::cu::kInvalidValue, "not mapped", [&] { return cuda.cuMemUnmap(address, kPage); });
  EXPECT_EQ(cuda.cuMemAddressFree(address, kPage), test::cu::kSuccess);
  Address other = 0;
  ASSERT_EQ(cuda.cuMemAddressReserve(&other, 2 * kPage, kPage, 0, 0), test::cu::kSuccess);
  EXPECT_EQ(cuda.cuMemMap(other, 2 * kPage, 0, again, 0), test::cu::kInvalidValue) << "it has one page";
  EXPECT_EQ(cuda.cuMemAddressFree(other, 2 * kPage), test::cu::kSuccess);
  ASSERT_EQ(cuda.cuMemAddressReserve(&other, kPage, kPage, 0, 0), test::cu::kSuccess);
  ASSERT_EQ(cuda.cuMemMap(other, kPage, 0, again, 0), test::cu::kSuccess);
  ASSERT_EQ(cuda.cuMemSetAccess(other, kPage, &access, 1), test::cu::kSuccess);
  uint64_t found = 0;
  ASSERT_EQ(cuda.cuMemcpy(reinterpret_cast<Address>(&found), other + 8, sizeof found), test::cu::kSuccess);
  EXPECT_EQ(found, word);
  EXPECT_EQ(cuda.cuMemUnmap(other, kPage), test::cu::kSuccess);
  EXPECT_EQ(cuda.cuMemRelease(again), test::cu::kSuccess);
  expectRefused(test::cu::kInvalidValue, "or twice", [&] { return cuda.cuMemRelease(again); });
  EXPECT_EQ(cuda.cuMemAddressFree(other, kPage), test::cu::kSuccess);
}

}  // namespace
}  // namespace eccl
