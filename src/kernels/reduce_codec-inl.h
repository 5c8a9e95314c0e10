// How elements become vectors to combine in, and back, for one instruction set. Included once per target.
//
// A chunk is four vectors: enough to hide the latency of an addition, few enough to stay in registers beside
// the next source's four. Which element sits in which lane does not matter as long as every source and the
// result agree, so the narrow types are taken apart by shifts (even and odd elements) instead of costlier
// permutations.
#include <cstddef>
#include <cstdint>

#include "base/low_precision.h"
#include "hwy/highway.h"

// No classic guard: Highway flips HWY_TARGET_TOGGLE for each target.
#if defined(ECCL_KERNELS_REDUCE_CODEC_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ECCL_KERNELS_REDUCE_CODEC_INL_H
#undef ECCL_KERNELS_REDUCE_CODEC_INL_H
#else
#define ECCL_KERNELS_REDUCE_CODEC_INL_H
#endif

// Whether the target that is being compiled is one that has kernels.
#undef ECCL_SIMD_TARGET
#define ECCL_SIMD_TARGET (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

#if ECCL_SIMD_TARGET
HWY_BEFORE_NAMESPACE();
namespace eccl::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChunkVectors = 4;
constexpr size_t kVectorBytes = HWY_LANES(uint8_t);

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
using F32 = Tag<float>;
using U32 = Tag<uint32_t>;
using U16 = Tag<uint16_t>;
using HalfTag = hn::Rebind<hwy::float16_t, F32>;  // half a vector: as many halves as there are floats
using HalfBits = hn::Repartition<uint16_t, HalfTag>;

/// The vector of type D at `from`, of any alignment.
template <class D>
HWY_INLINE hn::Vec<D> loadBytes(D d, const uint8_t* from) {
  return hn::BitCast(d, hn::LoadU(hn::Repartition<uint8_t, D>(), from));
}

template <class V>
HWY_INLINE Vec<uint8_t> asBytes(V v) {
  return hn::BitCast(Tag<uint8_t>(), v);
}

template <class T>
HWY_INLINE Vec<T> canonicalNan() {
  if constexpr (sizeof(T) == 4)
    return hn::BitCast(Tag<T>(), hn::Set(Tag<uint32_t>(), kNanBits32));
  else
    return hn::BitCast(Tag<T>(), hn::Set(Tag<uint64_t>(), kNanBits64));
}

template <class T>
HWY_INLINE Vec<T> withCanonicalNan(Vec<T> v) {
  return hn::IfThenElse(hn::IsNaN(v), canonicalNan<T>(), v);
}

/// What is delivered of elements that are combined in themselves.
template <class E>
HWY_INLINE Vec<uint8_t> finished(Vec<E> v) {
  if constexpr (hwy::IsFloat<E>())
    return asBytes(withCanonicalNan<E>(v));
  else
    return asBytes(v);
}

/// Elements that are combined in themselves.
/// decode: `kRaw` vectors of bytes at `from` → the chunk. encode: the chunk → `kRaw` vectors of bytes.
template <class E>
struct Codec {
  using Lane = E;
  static constexpr int kRaw = 4;

  static HWY_INLINE void decode(const uint8_t* from, Vec<E>* chunk) {
    for (int i = 0; i < kChunkVectors; ++i) chunk[i] = loadBytes(Tag<E>(), from + i * kVectorBytes);
  }
  static HWY_INLINE void encode(const Vec<E>* chunk, Vec<uint8_t>* raw) {
    for (int i = 0; i < kChunkVectors; ++i) raw[i] = finished<E>(chunk[i]);
  }
};

template <>
struct Codec<Half> {
  using Lane = float;
  static constexpr int kRaw = 2;

  static HWY_INLINE void decode(const uint8_t* from, Vec<float>* chunk) {
    for (int i = 0; i < kChunkVectors; ++i) {
      chunk[i] = hn::PromoteTo(F32(), loadBytes(HalfTag(), from + i * kVectorBytes / 2));
    }
  }
  /// Two vectors of floats as one of halves, to nearest; the canonical NaN of fp32 becomes that of half.
  static HWY_INLINE Vec<uint16_t> toHalves(Vec<float> low, Vec<float> high) {
    return hn::Combine(U16(), hn::BitCast(HalfBits(), hn::DemoteTo(HalfTag(), high)),
                       hn::BitCast(HalfBits(), hn::DemoteTo(HalfTag(), low)));
  }
  static HWY_INLINE void encode(const Vec<float>* chunk, Vec<uint8_t>* raw) {
    for (int i = 0; i < kRaw; ++i) {
      raw[i] =
          asBytes(toHalves(withCanonicalNan<float>(chunk[2 * i]), withCanonicalNan<float>(chunk[2 * i + 1])));
    }
  }
};

/// Vectors 0 and 2 of the chunk hold the even elements, 1 and 3 the odd ones.
template <>
struct Codec<Bfloat16> {
  using Lane = float;
  static constexpr int kRaw = 2;

  static HWY_INLINE void decode(const uint8_t* from, Vec<float>* chunk) {
    for (int i = 0; i < kRaw; ++i) {
      const auto both = loadBytes(U32(), from + i * kVectorBytes);
      chunk[2 * i] = hn::BitCast(F32(), hn::ShiftLeft<16>(both));
      chunk[2 * i + 1] = hn::BitCast(F32(), hn::And(both, hn::Set(U32(), 0xffff0000U)));
    }
  }
  /// narrow<Bfloat16>, the result in the upper half of each lane.
  static HWY_INLINE Vec<uint32_t> round(Vec<float> v) {
    const auto bits = hn::BitCast(U32(), v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(U32(), 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(U32(), 0x7fff)));
    return hn::IfThenElse(hn::RebindMask(U32(), hn::IsNaN(v)), hn::Set(U32(), kNanBits32), rounded);
  }
  static HWY_INLINE void encode(const Vec<float>* chunk, Vec<uint8_t>* raw) {
    for (int i = 0; i < kRaw; ++i) {
      const auto even = hn::ShiftRight<16>(round(chunk[2 * i]));
      const auto odd = hn::And(round(chunk[2 * i + 1]), hn::Set(U32(), 0xffff0000U));
      raw[i] = asBytes(hn::Or(even, odd));
    }
  }
};

/// Both fp8 types pass through half, which holds their values exactly: e5m2 is the upper byte of a half, and
/// e4m3 is one too, once its exponent's bias is put right by a factor of 2^8. Vectors 0 and 1 of the chunk hold
/// the even elements, 2 and 3 the odd ones.
template <class E>
struct Float8Codec {
  using Lane = float;
  static constexpr int kRaw = 1;
  static constexpr bool kE4m3 = E::kMantissaBits == 3;
  static constexpr float kBiasFactor = 256;  // 2^(15-7)

  /// Halves from codes in the upper bytes; lower bytes are ignored.
  static HWY_INLINE Vec<uint16_t> toHalfBits(Vec<uint16_t> codes) {
    if constexpr (kE4m3) {
      // The arithmetic shift keeps the sign and makes room for the exponent's fifth bit, which is cleared.
      const auto shifted = hn::BitCast(U16(), hn::ShiftRight<1>(hn::BitCast(Tag<int16_t>(), codes)));
      const auto half = hn::And(shifted, hn::Set(U16(), 0xbf80));
      // All seven bits set is NaN: only then does adding one unit carry into the fifth bit, which makes the
      // exponent all ones.
      const auto carry = hn::And(hn::Add(half, hn::Set(U16(), 0x0080)), hn::Set(U16(), 0x4000));
      return hn::Or(half, carry);
    } else {
      return hn::And(codes, hn::Set(U16(), 0xff00));
    }
  }
  static HWY_INLINE Vec<uint16_t> toCodes(Vec<uint16_t> half) {
    if constexpr (!kE4m3)
      return half;
    else
      return hn::Or(hn::And(half, hn::Set(U16(), 0x8000)),
                    hn::And(hn::Add(half, half), hn::Set(U16(), 0x7f00)));
  }

  static HWY_INLINE void decode(const uint8_t* from, Vec<float>* chunk) {
    const auto both = loadBytes(U16(), from);
    const auto even = toHalfBits(hn::ShiftLeft<8>(both)), odd = toHalfBits(both);
    chunk[0] = promote(hn::LowerHalf(HalfBits(), even));
    chunk[1] = promote(hn::UpperHalf(HalfBits(), even));
    chunk[2] = promote(hn::LowerHalf(HalfBits(), odd));
    chunk[3] = promote(hn::UpperHalf(HalfBits(), odd));
  }
  static HWY_INLINE Vec<float> promote(hn::Vec<HalfBits> half) {
    const auto value = hn::PromoteTo(F32(), hn::BitCast(HalfTag(), half));
    return kE4m3 ? hn::Mul(value, hn::Set(F32(), kBiasFactor)) : value;
  }

  /// The value that narrow<E> would give, as a float.
  static HWY_INLINE Vec<float> quantize(Vec<float> v) {
    constexpr int kDropped = 23 - E::kMantissaBits;
    constexpr float kLargest = widen(E{static_cast<typename E::Bits>(E::kOverflow)});
    const auto magnitude = hn::Min(hn::Abs(v), hn::Set(F32(), kLargest));
    // A power of two whose unit in the last place is E's unit at `magnitude` (for subnormals: their fixed
    // unit). Adding it rounds as the hardware rounds, to nearest even; subtracting it again is exact.
    const auto exponent = hn::And(hn::BitCast(U32(), magnitude), hn::Set(U32(), 0x7f800000U));
    const auto power = hn::BitCast(F32(), hn::Add(exponent, hn::Set(U32(), uint32_t{kDropped} << 23)));
    constexpr float kMin = detail::powerOfTwo(24 - E::kBias - E::kMantissaBits);
    const auto base = hn::Max(power, hn::Set(F32(), kMin));
    const auto rounded = hn::CopySignToAbs(hn::Sub(hn::Add(magnitude, base), base), v);
    return hn::IfThenElse(hn::IsNaN(v), canonicalNan<float>(), rounded);  // Min may have lost it
  }
  static HWY_INLINE void encode(const Vec<float>* chunk, Vec<uint8_t>* raw) {
    Vec<float> exact[kChunkVectors];
    for (int i = 0; i < kChunkVectors; ++i) {
      exact[i] = quantize(chunk[i]);
      if constexpr (kE4m3) exact[i] = hn::Mul(exact[i], hn::Set(F32(), 1 / kBiasFactor));
    }
    const auto even = toCodes(Codec<Half>::toHalves(exact[0], exact[1]));
    const auto odd = toCodes(Codec<Half>::toHalves(exact[2], exact[3]));
    raw[0] = asBytes(hn::Or(hn::ShiftRight<8>(even), hn::And(odd, hn::Set(U16(), 0xff00))));
  }
};

template <>
struct Codec<Float8e4m3> : Float8Codec<Float8e4m3> {};
template <>
struct Codec<Float8e5m2> : Float8Codec<Float8e5m2> {};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace eccl::kernels
HWY_AFTER_NAMESPACE();
#endif  // ECCL_SIMD_TARGET

#endif  // toggle
