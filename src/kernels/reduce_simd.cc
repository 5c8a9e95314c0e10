// The SIMD reductions, written once over Highway and compiled once per instruction set. Equal to
// reduceReference() bit by bit; the tests compare every variant the CPU can run.
//
// Only instruction sets with a hardware conversion of half are built (AVX2 with F16C, AVX-512, NEON); older
// CPUs are served by the reference, which spares a software conversion here and a good part of the build time.
// The last two are no instruction sets but Highway's obligatory fallback, for which nothing is compiled.
#define HWY_DISABLED_TARGETS ~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce_simd.cc"
#include "hwy/foreach_target.h"  // re-includes this file per target; must precede highway.h
#include "hwy/highway.h"

#include <hwy/cache_control.h>

#include <cstring>

#include "kernels/element.h"
#include "kernels/reduce_codec-inl.h"
#include "kernels/reduce_internal.h"

#if ECCL_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace eccl::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
HWY_INLINE Vec<T> multiply(Vec<T> a, Vec<T> b) {
  if constexpr (sizeof(T) == 1) {
    // No instruction set multiplies bytes. Even ones: products of whole 16-bit lanes, whose lower byte depends
    // on the lower bytes only. Odd ones: likewise, shifted down first.
    const U16 d;
    const auto x = hn::BitCast(d, a), y = hn::BitCast(d, b);
    const auto even = hn::And(hn::Mul(x, y), hn::Set(d, 0x00ff));
    const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(x), hn::ShiftRight<8>(y)));
    return hn::BitCast(Tag<T>(), hn::Or(even, odd));
  } else {
    return hn::Mul(a, b);
  }
}

/// IEEE 754-2019 maximum or minimum; see the reference's.
template <bool kMax, class T>
HWY_INLINE Vec<T> extreme(Vec<T> a, Vec<T> b) {
  const auto ordered = kMax ? hn::Max(a, b) : hn::Min(a, b);
  if constexpr (hwy::IsFloat<T>()) {
    const auto zeros = kMax ? hn::And(a, b) : hn::Or(a, b);
    const auto number = hn::IfThenElse(hn::Eq(a, b), zeros, ordered);
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), canonicalNan<T>(), number);
  } else {
    return ordered;
  }
}

template <RedOp kOp, class T>
HWY_INLINE Vec<T> combine(Vec<T> a, Vec<T> b) {
  if constexpr (kOp == RedOp::sum)
    return hn::Add(a, b);
  else if constexpr (kOp == RedOp::prod)
    return multiply<T>(a, b);
  else
    return extreme<kOp == RedOp::max, T>(a, b);
}

/// A Scale with its number in the type that it applies to. Integers are never divided here: reduceSimd() sees
/// to it.
template <class T>
struct Factor {
  Scale::Kind kind = Scale::Kind::none;
  T value = 0;

  Factor() = default;
  HWY_INLINE explicit Factor(const Scale& scale) : kind(scale.kind) {
    const bool real = hwy::IsFloat<T>() && kind == Scale::Kind::multiply;
    if (kind != Scale::Kind::none) value = real ? static_cast<T>(scale.real) : static_cast<T>(scale.integer);
  }
  HWY_INLINE void apply(Vec<T>* chunk) const {
    if (HWY_LIKELY(kind == Scale::Kind::none)) return;
    const auto factor = hn::Set(Tag<T>(), value);
    for (int i = 0; i < kChunkVectors; ++i) {
      if constexpr (hwy::IsFloat<T>()) {
        chunk[i] = kind == Scale::Kind::divide ? hn::Div(chunk[i], factor) : hn::Mul(chunk[i], factor);
      } else {
        chunk[i] = multiply<T>(chunk[i], factor);
      }
    }
  }
};

template <class T>
struct Operands {
  int sources, destinations;  // of these the first `cached` ordinarily, the others past the caches
  int cached;
  const uint8_t* from[kMaxOperands];
  uint8_t* to[kMaxOperands];
  Factor<T> pre[kMaxOperands], post;
};

/// Whole chunks of two unscaled sources, into one place. Not for low precision.
template <class E>
HWY_NOINLINE void sumChunks(const uint8_t* a, const uint8_t* b, uint8_t* to, size_t bytes) {
  using C = Codec<E>;
  for (size_t at = 0; at < bytes; at += C::kRaw * kVectorBytes) {
    Vec<E> sum[kChunkVectors], next[kChunkVectors];
    C::decode(a + at, sum);
    C::decode(b + at, next);
    for (int i = 0; i < kChunkVectors; ++i) sum[i] = combine<RedOp::sum, E>(sum[i], next[i]);
    Vec<uint8_t> raw[C::kRaw];
    C::encode(sum, raw);
    for (int i = 0; i < C::kRaw; ++i) hn::StoreU(raw[i], Tag<uint8_t>(), to + at + i * kVectorBytes);
  }
}

/// kTwo: unscaled sums of two sources to two places, not past the caches; else whatever the operands say. The
/// constants, and sumChunks()'s, are worth a third of the time while everything is in the L2 cache.
template <class E, RedOp kOp, class T, bool kTwo>
HWY_NOINLINE void reduceChunks(const Operands<T>& o, size_t bytes) {
  using C = Codec<E>;
  const int sources = kTwo ? 2 : o.sources, cached = kTwo ? 2 : o.cached,
            destinations = kTwo ? 2 : o.destinations;
  for (size_t at = 0; at < bytes; at += C::kRaw * kVectorBytes) {
    Vec<T> result[kChunkVectors];
    C::decode(o.from[0] + at, result);
    if (!kTwo) o.pre[0].apply(result);
    for (int s = 1; s < sources; ++s) {
      Vec<T> next[kChunkVectors];
      C::decode(o.from[s] + at, next);
      if (!kTwo) o.pre[s].apply(next);
      for (int i = 0; i < kChunkVectors; ++i) result[i] = combine<kOp, T>(result[i], next[i]);
    }
    if (!kTwo) o.post.apply(result);
    Vec<uint8_t> raw[C::kRaw];
    C::encode(result, raw);
    for (int d = 0; d < cached; ++d) {
      for (int i = 0; i < C::kRaw; ++i) hn::StoreU(raw[i], Tag<uint8_t>(), o.to[d] + at + i * kVectorBytes);
    }
    for (int d = cached; d < destinations; ++d) {
      for (int i = 0; i < C::kRaw; ++i) hn::Stream(raw[i], Tag<uint8_t>(), o.to[d] + at + i * kVectorBytes);
    }
  }
}

template <class E, RedOp kOp, class T>
void reduceChunks(const Operands<T>& o, size_t bytes) {
  if constexpr (kOp == RedOp::sum && !kIsLowPrecision<E>) {
    const bool plain = o.sources == 2 && o.cached == o.destinations && o.pre[0].kind == Scale::Kind::none &&
                       o.pre[1].kind == Scale::Kind::none && o.post.kind == Scale::Kind::none;
    if (plain && o.destinations == 1) return sumChunks<E>(o.from[0], o.from[1], o.to[0], bytes);
    if (plain && o.destinations == 2) return reduceChunks<E, kOp, T, true>(o, bytes);
  }
  reduceChunks<E, kOp, T, false>(o, bytes);
}

/// Whole chunks where they lie. What is left goes to the reference, or, as the reference is slow at converting,
/// to one more chunk in a padded buffer.
template <class E, RedOp kOp>
void reduceTyped(const ReduceTask& task) {
  using T = typename Codec<E>::Lane;
  constexpr size_t kChunkBytes = Codec<E>::kRaw * kVectorBytes;
  const size_t bytes = task.count * sizeof(E), rest = bytes % kChunkBytes, end = bytes - rest;
  if (!kIsLowPrecision<E> && end == 0) return reduceReferenceFrom(task, 0);
  Operands<T> operands;
  operands.sources = task.sources;
  operands.destinations = task.destinations;
  operands.post = Factor<T>(task.post);
  for (int s = 0; s < task.sources; ++s) {
    operands.from[s] = static_cast<const uint8_t*>(task.source[s]);
    operands.pre[s] = Factor<T>(task.pre[s]);
  }
  operands.cached = 0;
  int last = task.destinations;
  for (int d = 0; d < task.destinations; ++d) {
    auto* to = static_cast<uint8_t*>(task.destination[d]);
    // Only whole aligned vectors can be written past the caches.
    const bool streams = (task.streamed >> d & 1) != 0 && reinterpret_cast<uintptr_t>(to) % kVectorBytes == 0;
    operands.to[streams ? --last : operands.cached++] = to;
  }
  if (task.claimed == 0) {
    reduceChunks<E, kOp, T>(operands, end);
  } else {
    constexpr size_t kPiece = kClaimBytes - kClaimBytes % kChunkBytes;
    static_assert(kPiece > 0);
    Operands<T> piece = operands;
    for (size_t at = 0; at < end; at += kPiece) {
      const size_t length = HWY_MIN(kPiece, end - at);
      for (int s = 0; s < task.sources; ++s) {
        piece.from[s] = operands.from[s] + at;
        if ((task.claimed >> s & 1) != 0) claim(piece.from[s], length);
      }
      for (int d = 0; d < task.destinations; ++d) piece.to[d] = operands.to[d] + at;
      reduceChunks<E, kOp, T>(piece, length);
    }
  }
  if (operands.cached < task.destinations) hwy::FlushStream();
  if (rest == 0) return;
  if constexpr (!kIsLowPrecision<E>) return reduceReferenceFrom(task, end / sizeof(E));

  uint8_t padded[kMaxOperands][kChunkBytes];
  for (int s = 0; s < task.sources; ++s) {
    std::memset(padded[s], 0, kChunkBytes);
    std::memcpy(padded[s], operands.from[s] + end, rest);
    operands.from[s] = padded[s];
  }
  operands.to[0] = padded[0];
  operands.destinations = operands.cached = 1;
  reduceChunks<E, kOp, T>(operands, kChunkBytes);
  for (int d = 0; d < task.destinations; ++d) {
    std::memcpy(static_cast<uint8_t*>(task.destination[d]) + end, padded[0], rest);
  }
}

template <RedOp kOp>
void reduceByType(const ReduceTask& task) {
  visitElement(task.type, [&]<class E>(std::type_identity<E>) { reduceTyped<E, kOp>(task); });
}

/// One pass over the source, whatever the number of places it goes to.
void copyToAll(const ReduceTask& task, size_t bytes) {
  constexpr size_t kVectors = 4, kStep = kVectors * kVectorBytes;
  const Tag<uint8_t> tag;
  const auto* from = static_cast<const uint8_t*>(task.source[0]);
  uint8_t* to[kMaxOperands];
  bool streams[kMaxOperands], any = false;
  for (int d = 0; d < task.destinations; ++d) {
    to[d] = static_cast<uint8_t*>(task.destination[d]);
    // Only whole aligned vectors can be written past the caches.
    streams[d] = (task.streamed >> d & 1) != 0 && reinterpret_cast<uintptr_t>(to[d]) % kVectorBytes == 0;
    any |= streams[d];
  }
  static_assert(kClaimBytes % kStep == 0);
  const bool claimed = task.claimed != 0;
  size_t at = 0;
  for (; at + kStep <= bytes; at += kStep) {
    if (claimed && at % kClaimBytes == 0) claim(from + at, HWY_MIN(kClaimBytes, bytes - at));
    const auto a = hn::LoadU(tag, from + at), b = hn::LoadU(tag, from + at + kVectorBytes),
               c = hn::LoadU(tag, from + at + 2 * kVectorBytes),
               e = hn::LoadU(tag, from + at + 3 * kVectorBytes);
    for (int d = 0; d < task.destinations; ++d) {
      uint8_t* place = to[d] + at;
      if (streams[d]) {
        hn::Stream(a, tag, place);
        hn::Stream(b, tag, place + kVectorBytes);
        hn::Stream(c, tag, place + 2 * kVectorBytes);
        hn::Stream(e, tag, place + 3 * kVectorBytes);
      } else {
        hn::StoreU(a, tag, place);
        hn::StoreU(b, tag, place + kVectorBytes);
        hn::StoreU(c, tag, place + 2 * kVectorBytes);
        hn::StoreU(e, tag, place + 3 * kVectorBytes);
      }
    }
  }
  for (int d = 0; d < task.destinations; ++d) std::memcpy(to[d] + at, from + at, bytes - at);
  if (any) hwy::FlushStream();
}

/// To one place, through the caches, from the end. Whole vectors are written where one begins.
void copyBackwards(uint8_t* to, const uint8_t* from, size_t bytes) {
  constexpr size_t kStep = 4 * kVectorBytes;
  static_assert(kBackwardsFrom >= 2 * kStep);
  const Tag<uint8_t> tag;
  const auto copyVector = [&](size_t at) { hn::StoreU(hn::LoadU(tag, from + at), tag, to + at); };
  copyVector(bytes - kVectorBytes);
  size_t at = bytes - (reinterpret_cast<uintptr_t>(to) + bytes) % kVectorBytes;
  for (; at >= kStep; at -= kStep) {
    const size_t a = at - kVectorBytes, b = a - kVectorBytes, c = b - kVectorBytes, d = c - kVectorBytes;
    const auto atA = hn::LoadU(tag, from + a), atB = hn::LoadU(tag, from + b), atC = hn::LoadU(tag, from + c),
               atD = hn::LoadU(tag, from + d);
    hn::Store(atA, tag, to + a);
    hn::Store(atB, tag, to + b);
    hn::Store(atC, tag, to + c);
    hn::Store(atD, tag, to + d);
  }
  for (; at >= kVectorBytes; at -= kVectorBytes) copyVector(at - kVectorBytes);
  copyVector(0);
}

/// memcpy is the best copy, but for one past the caches or to several places, and for what is better copied
/// from the end; what is in its place already is not copied at all.
void copySimd(const ReduceTask& task) {
  const size_t length = task.count * sizeOf(task.type);
  if (task.destinations == 1 && (task.streamed | task.claimed) == 0 &&
      copiesBackwards(task.destination[0], task.source[0], length)) {
    if (task.destination[0] != task.source[0])
      copyBackwards(static_cast<uint8_t*>(task.destination[0]), static_cast<const uint8_t*>(task.source[0]),
                    length);
    return;
  }
  ReduceTask bytes = task;
  bytes.destinations = bytes.streamed = 0;
  for (int d = 0; d < task.destinations; ++d) {
    if (task.destination[d] == task.source[0]) continue;
    bytes.streamed |= static_cast<uint8_t>((task.streamed >> d & 1) << bytes.destinations);
    bytes.destination[bytes.destinations++] = task.destination[d];
  }
  if (bytes.streamed == 0 && bytes.destinations < 2) return reduceReference(bytes);
  copyToAll(bytes, length);
}

template <class E>
void sumPair(const ReduceTask& task) {
  constexpr size_t kChunkBytes = Codec<E>::kRaw * kVectorBytes;
  const auto *a = static_cast<const uint8_t*>(task.source[0]), *b = static_cast<const uint8_t*>(task.source[1]);
  auto* const to = static_cast<uint8_t*>(task.destination[0]);
  const size_t bytes = task.count * sizeof(E), end = bytes - bytes % kChunkBytes;
  if (end > 0) sumChunks<E>(a, b, to, end);
  size_t at = end;
  for (; at + kVectorBytes <= bytes; at += kVectorBytes) {
    const auto sum = combine<RedOp::sum, E>(loadBytes(Tag<E>(), a + at), loadBytes(Tag<E>(), b + at));
    hn::StoreU(finished<E>(sum), Tag<uint8_t>(), to + at);
  }
  for (; at < bytes; at += sizeof(E)) {
    E x, y;
    std::memcpy(&x, a + at, sizeof(E));
    std::memcpy(&y, b + at, sizeof(E));
    x = delivered<E>(kernels::combine<RedOp::sum>(x, y));
    std::memcpy(to + at, &x, sizeof(E));
  }
}

bool divides(const ReduceTask& task) {
  bool any = task.post.kind == Scale::Kind::divide;
  for (int s = 0; s < task.sources; ++s) any |= task.pre[s].kind == Scale::Kind::divide;
  return any;
}

}  // namespace

Reducer simdSums(DataType type) {
  Reducer found = nullptr;
  visitElement(type, [&]<class E>(std::type_identity<E>) {
    if constexpr (!kIsLowPrecision<E>) found = &sumPair<E>;
  });
  return found;
}

void reduceSimd(const ReduceTask& task) {
  if (isCopy(task)) return copySimd(task);
  // No instruction set divides integers.
  if (!isFloating(task.type) && divides(task)) return reduceReference(task);
  switch (task.op) {
    case RedOp::prod:
      return reduceByType<RedOp::prod>(task);
    case RedOp::max:
      return reduceByType<RedOp::max>(task);
    case RedOp::min:
      return reduceByType<RedOp::min>(task);
    default:
      return reduceByType<RedOp::sum>(task);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace eccl::kernels
HWY_AFTER_NAMESPACE();
#endif  // ECCL_SIMD_TARGET

#if HWY_ONCE
namespace eccl::kernels {

size_t findSimdVariants(ReduceVariant* list) {
  [[maybe_unused]] const int64_t supported = hwy::SupportedTargets();
  size_t count = 0;
#if HWY_TARGETS & HWY_AVX3
  if (supported & HWY_AVX3) list[count++] = {"AVX3", &N_AVX3::reduceSimd, &N_AVX3::simdSums};
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) list[count++] = {"AVX2", &N_AVX2::reduceSimd, &N_AVX2::simdSums};
#endif
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) list[count++] = {"NEON", &N_NEON::reduceSimd, &N_NEON::simdSums};
#endif
  return count;
}

}  // namespace eccl::kernels
#endif
