// Reductions in plain memory: k sources combined element by element, the result delivered to m destinations.
// This one operation is also the copy (one source) and the multicast (many destinations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/atomics.h"
#include "program/program.h"

namespace eccl::kernels {

/// How one source, or the result, is scaled. `multiply` serves PreMulSum, and Avg on floats, which scales
/// each contribution by 1/n; `divide` serves Avg on integers, which divides the sum.
struct Scale {
  enum class Kind : uint8_t { none, multiply, divide };

  Kind kind = Kind::none;
  union {
    double real = 0;  ///< floats, multiply: rounded to the type combined in (fp32 or fp64), then applied
    int64_t integer;  ///< integers, multiply: taken modulo 2^n. divide, any type: 1 … 2^31-1
  };

  static constexpr Scale multiplyBy(double factor) {
    Scale scale{Kind::multiply};
    scale.real = factor;
    return scale;
  }
  static constexpr Scale multiplyByInteger(int64_t factor) { return integral(Kind::multiply, factor); }
  static constexpr Scale divideBy(int32_t divisor) { return integral(Kind::divide, divisor); }

 private:
  static constexpr Scale integral(Kind kind, int64_t value) {
    Scale scale{kind};
    scale.integer = value;
    return scale;
  }
};

/// result = post((pre0(s0) op pre1(s1)) op pre2(s2) …), for each of `count` elements, delivered to
/// every destination.
///
/// The result is defined bit by bit, on every machine and by every variant:
///  - half, bfloat16, f8e4m3 and f8e5m2 are widened to fp32, scaled and combined there over all sources of
///    this task, and rounded once at the end (base/low_precision.h: ties to even, fp8 saturates). fp32, fp64
///    and the integers are combined in themselves, without fused multiply-add.
///  - Integers wrap modulo 2^n, in factors too. Division truncates towards zero; it is done in the element
///    type or int32_t, whichever is larger.
///  - max and min are IEEE 754-2019 maximum and minimum: a NaN among the sources gives NaN, and -0 < +0.
///    So neither depends on the order of the sources.
///  - A NaN result has every bit set but the sign. Infinities are as usual, except that fp8 saturates them.
///  - One source and no scaling is a copy: every bit pattern, NaNs included, passes unchanged.
///
/// Memory needs no alignment at all, not even the element's. A destination may be the same address as a source
/// (in place); any other overlap of a destination with a source or another destination is not allowed.
/// Owns nothing.
struct ReduceTask {
  DataType type = DataType::int8;
  RedOp op = RedOp::sum;     ///< sum, prod, max or min; not looked at by a copy
  uint8_t sources = 0;       ///< 1 … kMaxOperands
  uint8_t destinations = 0;  ///< 1 … kMaxOperands
  /// Bit d: destination d will not be read again while it is in a cache; it may be written past them, which
  /// spares reading it first. Visible to others like any other store once reduce() has returned and a release.
  uint8_t streamed = 0;
  /// Bit s: another processor has written source s, and will write there again; nobody else uses it meanwhile.
  /// It is better claimed (below) as it is read.
  uint8_t claimed = 0;
  size_t count = 0;  ///< elements, 0 included
  const void* source[kMaxOperands] = {};
  void* destination[kMaxOperands] = {};
  Scale pre[kMaxOperands];
  Scale post;
};
static_assert(std::is_trivially_copyable_v<ReduceTask>);  // devices copy it

/// True when `task` moves bits and computes nothing.
constexpr bool isCopy(const ReduceTask& task) {
  return task.sources == 1 && task.pre[0].kind == Scale::Kind::none && task.post.kind == Scale::Kind::none;
}

/// Has the lines of memory that another processor wrote be this processor's own before they are read: to write
/// them again then takes the other one a fraction of what it takes while both have them.
inline void claim(const void* memory, size_t bytes) {
  auto* const lines = const_cast<volatile std::byte*>(static_cast<const volatile std::byte*>(memory));
  for (size_t at = 0; at < bytes; at += kCacheLine) lines[at] = lines[at];
}
/// So much is claimed at a time: it is still in the first cache when it is read, and so is what it is combined
/// with.
inline constexpr size_t kClaimBytes = 2048;

/// Runs `task` on the calling thread by the fastest variant this CPU has. Thread-safe as long as tasks that run
/// at once do not share destinations. Cannot fail; a task outside the ranges above is undefined. Assumes the
/// default floating-point mode: nearest, subnormals kept.
void reduce(const ReduceTask& task);

/// The function that does what reduce() does, for tasks that differ from this one in their addresses alone and
/// stream nothing. It spares reduce()'s look at the task, which takes longer than to add some hundred elements.
/// Null: call reduce().
using Reducer = void (*)(const ReduceTask&);
Reducer reducerFor(const ReduceTask& task);

/// Which copies are made from the end to the beginning, by vectors, if they are to one place, through the
/// caches, of what is not claimed, and this CPU has vectors. Memory is mostly written from the beginning on:
/// its end is what the first cache still has, and what is copied last is what is read first. Between two ranks
/// with a common cache half a round trip of 16 KiB takes .69 us instead of .83, and AllGather of 64 KiB, in
/// copies of 32, 1.73 instead of 2.21 (registered memory, AMD EPYC, family 25 model 17, 2026-11-30); .40
/// instead of .60 and 1.16 instead of 1.53 (family 26 model 2, 2026-12-01). Shorter ones fit into that cache as
/// a whole. Longer ones are left to memcpy, which (`rep movsb`) does not read the lines that it writes: with
/// the latter half a round trip of 256 KiB takes 3.4 instead of 4.3, with the former 6.45 instead of 6.17
/// (perf/results/epyc-25-17/ways.md, epyc-26-2/ways.md).
///
/// But memcpy takes 15 times as long on the former where the place is 1 to 15 bytes ahead of the source within
/// a page.
inline constexpr size_t kBackwardsFrom = 16384, kBackwardsTo = 32768, kJustAheadTo = 1 << 20;
inline bool copiesBackwards(const void* to, const void* from, size_t bytes) {
  if (bytes < kBackwardsFrom || bytes > kJustAheadTo) return false;
  const size_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % 4096;
  return bytes <= kBackwardsTo || (ahead > 0 && ahead < 16);
}

/// The definition of the result in plain C++, and the variant for CPUs, builds and tasks without a better one.
void reduceReference(const ReduceTask& task);

/// One implementation of reduce(); all give the same bits.
struct ReduceVariant {
  const char* name;  ///< "AVX3" (AVX-512), "AVX2", "NEON", "reference"; static
  Reducer run;
  /// Returns the function that adds two unscaled sources of a type into one place; null where `run` has to do
  /// it. The pointer is null if that is so for every type.
  Reducer (*sums)(DataType);
};

/// The variants this CPU can run, best first; the reference is last. reduce() takes the first.
std::span<const ReduceVariant> reduceVariants();

}  // namespace eccl::kernels
