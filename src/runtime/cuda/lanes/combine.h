// The work of a move, by all threads of a block: bytes of several sources combined, the result delivered to
// several destinations. The bits are the reference's (kernels/element.h).
#pragma once

#include "runtime/cuda/lanes/convert.h"

namespace eccl::runtime::cuda::lanes {

/// Sixteen bytes, loaded and stored at once.
struct alignas(16) Wide {
  uint64_t words[2];
};
/// What is to be done, in the shared memory of a block; the same for all its threads.
struct Work {
  uint32_t sources, destinations;
  const std::byte* source[kMaxOperands];
  std::byte* destination[kMaxOperands];  // null: nothing is written
  kernels::Scale pre[kMaxOperands], post;
  RedOp op;

  ECCL_DEVICE bool copies() const {
    return sources == 1 && pre[0].kind == kernels::Scale::Kind::none && post.kind == kernels::Scale::Kind::none;
  }
  /// Whether a destination is written. A copy onto itself is none: others may be reading there.
  ECCL_DEVICE bool writes(uint32_t d) const {
    return destination[d] != nullptr && !(destination[d] == source[0] && copies());
  }
};

/// N elements that are combined at once, in registers.
template <class E, int N>
struct Elements {
  kernels::Accumulator<E> value[N];

  ECCL_DEVICE Elements() {}
  ECCL_DEVICE Elements(const Pack<E, N>& from, const kernels::Scale& pre) {
    widenAll(from, value);
    scale(pre);
  }
  ECCL_DEVICE void scale(const kernels::Scale& by) {
    if (by.kind == kernels::Scale::Kind::none) return;
    ECCL_UNROLL
    for (int i = 0; i < N; ++i) value[i] = kernels::scaled(value[i], by);
  }
  template <RedOp kOp>
  ECCL_DEVICE void combine(const Elements& with) {
    ECCL_UNROLL
    for (int i = 0; i < N; ++i) value[i] = kernels::combine<kOp>(value[i], with.value[i]);
  }
  ECCL_DEVICE void combine(RedOp op, const Elements& with) {
    switch (op) {
      case RedOp::prod:
        return combine<RedOp::prod>(with);
      case RedOp::max:
        return combine<RedOp::max>(with);
      case RedOp::min:
        return combine<RedOp::min>(with);
      default:
        return combine<RedOp::sum>(with);
    }
  }
  ECCL_DEVICE Pack<E, N> delivered() const { return deliverAll<E>(value); }
};

/// `kTimes` lines of sixteen bytes, `distance` lines apart, all on their way at once.
template <class E, int kTimes>
ECCL_DEVICE inline void combineLines(const Work& work, uint64_t line, uint64_t distance) {
  constexpr int kElements = 16 / sizeof(E);
  using Its = Pack<E, kElements>;
  const auto source = [&](uint32_t s, int time) {
    return reinterpret_cast<const Wide*>(work.source[s])[line + static_cast<uint64_t>(time) * distance];
  };
  Wide result[kTimes];
  ECCL_UNROLL
  for (int t = 0; t < kTimes; ++t) result[t] = source(0, t);
  if (!work.copies()) {
    Wide more[kTimes] = {};
    if (work.sources > 1) {
      ECCL_UNROLL
      for (int t = 0; t < kTimes; ++t) more[t] = source(1, t);
    }
    Elements<E, kElements> sums[kTimes];
    ECCL_UNROLL
    for (int t = 0; t < kTimes; ++t) sums[t] = {std::bit_cast<Its>(result[t]), work.pre[0]};
    for (uint32_t s = 1; s < work.sources; ++s) {
      if (s > 1) {
        ECCL_UNROLL
        for (int t = 0; t < kTimes; ++t) more[t] = source(s, t);
      }
      ECCL_UNROLL
      for (int t = 0; t < kTimes; ++t) { sums[t].combine(work.op, {std::bit_cast<Its>(more[t]), work.pre[s]}); }
    }
    ECCL_UNROLL
    for (int t = 0; t < kTimes; ++t) {
      sums[t].scale(work.post);
      result[t] = std::bit_cast<Wide>(sums[t].delivered());
    }
  }
  for (uint32_t d = 0; d < work.destinations; ++d) {
    if (!work.writes(d)) continue;
    Wide* const to = reinterpret_cast<Wide*>(work.destination[d]) + line;
    ECCL_UNROLL
    for (int t = 0; t < kTimes; ++t) to[static_cast<uint64_t>(t) * distance] = result[t];
  }
}

/// An element at any address.
template <class E>
ECCL_DEVICE inline E loadAt(const std::byte* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(E) == 0) return *reinterpret_cast<const E*>(from);
  E element;
  for (size_t i = 0; i < sizeof(E); ++i) reinterpret_cast<std::byte*>(&element)[i] = from[i];
  return element;
}
template <class E>
ECCL_DEVICE inline void storeAt(std::byte* to, E element) {
  if (reinterpret_cast<uintptr_t>(to) % sizeof(E) == 0) {
    *reinterpret_cast<E*>(to) = element;
    return;
  }
  for (size_t i = 0; i < sizeof(E); ++i) to[i] = reinterpret_cast<const std::byte*>(&element)[i];
}

template <class E>
ECCL_DEVICE inline void combineOne(const Work& work, uint64_t at) {
  E result = loadAt<E>(work.source[0] + at);
  if (!work.copies()) {
    Elements<E, 1> sum(Pack<E, 1>{result}, work.pre[0]);
    for (uint32_t s = 1; s < work.sources; ++s)
      sum.combine(work.op, {Pack<E, 1>{loadAt<E>(work.source[s] + at)}, work.pre[s]});
    sum.scale(work.post);
    result = sum.delivered().elements[0];
  }
  for (uint32_t d = 0; d < work.destinations; ++d)
    if (work.writes(d)) storeAt(work.destination[d] + at, result);
}

/// To multiply by the element at any address: as PreMul::scale().
template <class E>
ECCL_DEVICE inline kernels::Scale scaleAt(const std::byte* from) {
  const auto value = kernels::widened(loadAt<E>(from));
  if constexpr (std::is_integral_v<E>)
    return kernels::Scale::multiplyByInteger(static_cast<int64_t>(value));
  else
    return kernels::Scale::multiplyBy(value);
}

/// All of `work`: `bytes` of each source and destination, a multiple of the element's. Called from one place:
/// what it becomes is most of a kernel.
template <class E, class Block>
ECCL_DEVICE inline void combineAll(Block& block, const Work& work, uint64_t bytes) {
  // Sixteen bytes are up to sixteen accumulators, each in a register.
  constexpr int kTimes = sizeof(E) > 1 ? 4 : kIsLowPrecision<E> ? 1 : 2;
  bool any = false;
  for (uint32_t d = 0; d < work.destinations; ++d) any |= work.writes(d);
  if (!any) return;
  uintptr_t addresses = 0;
  for (uint32_t s = 0; s < work.sources; ++s) addresses |= reinterpret_cast<uintptr_t>(work.source[s]);
  for (uint32_t d = 0; d < work.destinations; ++d)
    addresses |= reinterpret_cast<uintptr_t>(work.destination[d]);
  const uint64_t thread = block.thread(), threads = block.threads();
  const uint64_t lines = addresses % 16 == 0 ? bytes / 16 : 0;
  uint64_t line = thread;
  for (; line + (kTimes - 1) * threads < lines; line += kTimes * threads)
    combineLines<E, kTimes>(work, line, threads);
  for (; line < lines; line += threads) combineLines<E, 1>(work, line, 0);
  for (uint64_t at = lines * 16 + thread * sizeof(E); at < bytes; at += threads * sizeof(E))
    combineOne<E>(work, at);
}

}  // namespace eccl::runtime::cuda::lanes
