// What a lane kernel needs of the machine: words that ranks of other GPUs look at, and lines. One source for
// nvcc and for the host's compiler, where tests run kernels in threads.
#pragma once

#include "base/atomics.h"
#include "runtime/cuda/lanes/block_program.h"

namespace eccl::runtime::cuda::lanes {

/// As loadAcquire() and storeRelease(). `near`: both sides are on one GPU, whose own order is enough and costs
/// 0.4 us less (NVIDIA H100, November 2026).
ECCL_DEVICE inline uint64_t acquire(const uint64_t* word, bool near) {
#if defined(__CUDA_ARCH__)
  if (near)
    return ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_device>(*const_cast<uint64_t*>(word))
        .load(::cuda::std::memory_order_acquire);
#endif
  static_cast<void>(near);
  return loadAcquire(word);
}
ECCL_DEVICE inline void release(uint64_t* word, uint64_t value, bool near) {
#if defined(__CUDA_ARCH__)
  if (near)
    return ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_device>(*word).store(
        value, ::cuda::std::memory_order_release);
#endif
  static_cast<void>(near);
  storeRelease(word, value);
}

/// Stores a word without ordering anything: for hints.
template <class T>
ECCL_DEVICE inline void storeHint(T* word, T value) {
#if defined(__CUDA_ARCH__)
  ::cuda::atomic_ref<T, ::cuda::thread_scope_system>(*word).store(value, ::cuda::std::memory_order_relaxed);
#else
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

/// Adds one, for blocks of one kernel, and orders all before it before all after it. What was there.
ECCL_DEVICE inline uint64_t addOne(uint64_t* word) {
#if defined(__CUDA_ARCH__)
  return ::cuda::atomic_ref<uint64_t, ::cuda::thread_scope_device>(*word).fetch_add(
      1, ::cuda::std::memory_order_acq_rel);
#else
  return __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL);
#endif
}

/// Sets a word that is 0, for threads and blocks of one kernel. False: another one has.
ECCL_DEVICE inline bool claim(uint32_t* word) {
#if defined(__CUDA_ARCH__)
  return ::cuda::atomic_ref<uint32_t, ::cuda::thread_scope_device>(*word).exchange(
             1, ::cuda::std::memory_order_relaxed) == 0;
#else
  return __atomic_exchange_n(word, 1u, __ATOMIC_RELAXED) == 0;
#endif
}

/// On a GPU: all before it comes before all behind it.
ECCL_DEVICE inline void fence(bool near) {
#if defined(__CUDA_ARCH__)
  if (near)
    ::cuda::atomic_thread_fence(::cuda::std::memory_order_acq_rel, ::cuda::thread_scope_device);
  else
    ::cuda::atomic_thread_fence(::cuda::std::memory_order_acq_rel, ::cuda::thread_scope_system);
#endif
  static_cast<void>(near);
}
/// As release(), behind a fence(), or where what was read has been used: that is order enough on a GPU. A
/// host's compiler, and ThreadSanitizer, are told so by a release.
ECCL_DEVICE inline void releaseOrdered(uint64_t* word, uint64_t value) {
#if defined(__CUDA_ARCH__)
  storeHint(word, value);
#else
  storeRelease(word, value);
#endif
}
/// As acquire(), where what is stored behind it depends on what it finds, and nothing else is read.
ECCL_DEVICE inline uint64_t acquireOrdered(const uint64_t* word) {
#if defined(__CUDA_ARCH__)
  return loadRelaxed(word);
#else
  return loadAcquire(word);
#endif
}

/// Each half of a line, data and flag, is stored and loaded at once. On a GPU no other order is needed: what is
/// written because of a line depends on what was read for it. The host's variant says so by release and
/// acquire.
ECCL_DEVICE inline void storeLine(Line* line, uint32_t low, uint32_t high, uint32_t flag) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %2};" ::"l"(line), "r"(low), "r"(flag), "r"(high)
               : "memory");
#else
  auto* const halves = reinterpret_cast<uint64_t*>(line);
  __atomic_store_n(halves, uint64_t{flag} << 32 | low, __ATOMIC_RELEASE);
  __atomic_store_n(halves + 1, uint64_t{flag} << 32 | high, __ATOMIC_RELEASE);
#endif
}
ECCL_DEVICE inline bool loadLine(const Line* line, uint32_t flag, uint32_t* low, uint32_t* high) {
#if defined(__CUDA_ARCH__)
  uint32_t lowFlag, highFlag;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(*low), "=r"(lowFlag), "=r"(*high), "=r"(highFlag)
               : "l"(line)
               : "memory");
  return lowFlag == flag && highFlag == flag;
#else
  const auto* const halves = reinterpret_cast<const uint64_t*>(line);
  const uint64_t first = __atomic_load_n(halves, __ATOMIC_ACQUIRE),
                 second = __atomic_load_n(halves + 1, __ATOMIC_ACQUIRE);
  *low = static_cast<uint32_t>(first);
  *high = static_cast<uint32_t>(second);
  return first >> 32 == flag && second >> 32 == flag;
#endif
}

/// The flag of message number `message`: never what a zeroed line holds.
ECCL_DEVICE inline uint32_t flagOf(uint64_t message) {
  return static_cast<uint32_t>(message) | 0x80000000u;
}
/// The number of a ring's first message: what comes rarely comes early, too.
inline constexpr uint64_t kFirstMessage = (uint64_t{1} << 30) - 6;
/// Flags come again after 2^31 messages. By then no line holds an old one: the receiver cleans each slot once
/// in 2^30 messages, before it lets the sender have it.
inline constexpr uint64_t kCleanEvery = uint64_t{1} << 30;
ECCL_DEVICE inline bool cleansAfter(uint64_t message) {
  return message % kCleanEvery >= kCleanEvery - kSlots;
}

}  // namespace eccl::runtime::cuda::lanes
