// Atomic access to words in memory that threads, processes or devices share. Words in shared memory are plain
// integers, so std::atomic's guarantees about layout are not needed. The functions compile for host and CUDA
// alike.
//
// Threads: all functions may be called from any thread; they are what makes that safe. Words are naturally
// aligned integers of 8 bytes at most.
#pragma once

#include <sched.h>

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#include <cuda/atomic>
#define ECCL_DEVICE __host__ __device__
#elif !defined(ECCL_DEVICE)
#define ECCL_DEVICE
#endif

namespace eccl {

/// A processor's unit of exchange with others.
inline constexpr size_t kCacheLine = 64;

/// Comes before every later load and store of this thread. If the value is one that a storeRelease() stored,
/// all that its thread wrote before is visible here.
template <class T>
ECCL_DEVICE inline T loadAcquire(const T* word) {
#if defined(__CUDA_ARCH__)
  return cuda::atomic_ref<T, cuda::thread_scope_system>(*const_cast<T*>(word))
      .load(cuda::std::memory_order_acquire);
#else
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
#endif
}

/// Orders nothing. For hints that may be old, and for words that only this thread writes.
template <class T>
ECCL_DEVICE inline T loadRelaxed(const T* word) {
#if defined(__CUDA_ARCH__)
  return cuda::atomic_ref<T, cuda::thread_scope_system>(*const_cast<T*>(word))
      .load(cuda::std::memory_order_relaxed);
#else
  return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/// Comes after every earlier load and store of this thread. Pairs with loadAcquire().
template <class T>
ECCL_DEVICE inline void storeRelease(T* word, T value) {
#if defined(__CUDA_ARCH__)
  cuda::atomic_ref<T, cuda::thread_scope_system>(*word).store(value, cuda::std::memory_order_release);
#else
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

/// Orders every earlier load of this thread before every later load and store.
ECCL_DEVICE inline void acquireFence() {
#if defined(__CUDA_ARCH__)
  cuda::atomic_thread_fence(cuda::std::memory_order_acquire, cuda::thread_scope_system);
#elif defined(__SANITIZE_THREAD__)
  // It does not model fences; what is ordered here are not words that it could find a race of.
#else
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

/// Orders every earlier store of this thread before every later load: a full barrier.
ECCL_DEVICE inline void fullFence() {
#if defined(__CUDA_ARCH__)
  cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_system);
#else
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"  // ThreadSanitizer does not model it; the processor does
#endif
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif
}

/// Stores, then is a full barrier: what follows is not read before others can see the store. For flags where
/// each side stores its own and then loads the other's, such as "I am about to sleep" against "there is
/// news". One of the two then sees the other's store.
template <class T>
ECCL_DEVICE inline void storeFenced(T* word, T value) {
#if defined(__CUDA_ARCH__)
  cuda::atomic_ref<T, cuda::thread_scope_system>(*word).store(value, cuda::std::memory_order_relaxed);
  cuda::atomic_thread_fence(cuda::std::memory_order_seq_cst, cuda::thread_scope_system);
#else
#if defined(__x86_64__)
  // An exchange is a full barrier on x86, a cheaper one than a fence, and one that ThreadSanitizer models.
  __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
#else
  // Elsewhere it orders less: on aarch64 a later load may pass the store of an exchange.
  __atomic_store_n(word, value, __ATOMIC_RELEASE);
  fullFence();
#endif
#endif
}

/// Makes a full barrier of a sequentially consistent store of this thread, to a std::atomic, just before. On
/// x86 that is one already.
inline void fenceAfterStore() {
#if !defined(__x86_64__)
  fullFence();
#endif
}

/// The number of the processor that this thread runs on, from 1. It may run on another one at once.
inline uint32_t processorHere() {
  return static_cast<uint32_t>(sched_getcpu()) + 1;
}

/// Tells the processor that this thread spins: call it between two looks at memory that another core is to
/// change. It does not yield to other threads.
inline void relaxProcessor() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace eccl
