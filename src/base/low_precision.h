// The low-precision floats as bits, and their conversions from and to fp32. Plain constexpr arithmetic on
// values, without tables or state: the same source serves host, device and oracle. Branch-free, so that
// compilers vectorise loops over it.
//
// widen() is exact. narrow() rounds once, to nearest, ties to even, and assumes the thread's
// floating-point mode to be the default one (nearest, no flushing of subnormals). What does not fit:
//   half, bfloat16    overflow becomes infinity, as IEEE 754 says
//   f8e4m3, f8e5m2    overflow and infinity become the largest finite value (OCP OFP8 1.0 "saturating mode",
//                     CUDA's cvt.rn.satfinite), although e5m2 has an infinity: a host and a GPU must agree
//   NaN               becomes the one NaN with every bit but the sign set (CUDA's), whatever sign and payload
//                     it had: results must not depend on which of two NaNs an instruction happens to keep
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace eccl {

/// IEEE 754 binary16. This and the types below are bits alone; widen() gives them a value.
struct Half {
  using Bits = uint16_t;
  static constexpr int kMantissaBits = 10, kBias = 15;
  static constexpr uint32_t kSpecial = 0x7c00;   ///< the first code, without sign, that is no number
  static constexpr uint32_t kOverflow = 0x7c00;  ///< the code, without sign, of all that is too large
  Bits bits;
};

/// The upper half of a binary32.
struct Bfloat16 {
  using Bits = uint16_t;
  static constexpr int kMantissaBits = 7, kBias = 127;
  static constexpr uint32_t kSpecial = 0x7f80, kOverflow = 0x7f80;
  Bits bits;
};

/// OCP OFP8 E4M3: no infinity, one NaN per sign, largest finite 448, smallest 2^-9.
struct Float8e4m3 {
  using Bits = uint8_t;
  static constexpr int kMantissaBits = 3, kBias = 7;
  static constexpr uint32_t kSpecial = 0x7f, kOverflow = 0x7e;
  Bits bits;
};

/// OCP OFP8 E5M2: infinity and NaNs as IEEE 754 has them, largest finite 57344, smallest 2^-16.
struct Float8e5m2 {
  using Bits = uint8_t;
  static constexpr int kMantissaBits = 2, kBias = 15;
  static constexpr uint32_t kSpecial = 0x7c, kOverflow = 0x7b;
  Bits bits;
};

template <class T>
inline constexpr bool kIsLowPrecision = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16> ||
                                        std::is_same_v<T, Float8e4m3> || std::is_same_v<T, Float8e5m2>;

/// The NaN that reductions deliver: all bits but the sign are set.
inline constexpr uint32_t kNanBits32 = 0x7fffffffU;
inline constexpr uint64_t kNanBits64 = 0x7fffffffffffffffULL;

namespace detail {
/// 2^exponent, for normal results.
constexpr float powerOfTwo(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}
constexpr uint32_t kInfinityBits = 0x7f800000U;
/// condition ? a : b, both of them computed: a branch would keep compilers from vectorising.
constexpr uint32_t select(bool condition, uint32_t a, uint32_t b) {
  return b ^ ((a ^ b) & (0U - static_cast<uint32_t>(condition)));
}
}  // namespace detail

/// The value of `x`, exactly. A NaN stays a NaN, sign and payload unspecified.
template <class T>
requires kIsLowPrecision<T>
constexpr float widen(T x) {
  constexpr int kWidth = 8 * sizeof(typename T::Bits);
  constexpr uint32_t kMagnitude = (1U << (kWidth - 1)) - 1;
  const uint32_t sign = (uint32_t{x.bits} >> (kWidth - 1)) << 31;
  const uint32_t code = x.bits & kMagnitude;
  if constexpr (std::is_same_v<T, Bfloat16>) {
    return std::bit_cast<float>(uint32_t{x.bits} << 16);
  } else {
    const uint32_t normal = (code << (23 - T::kMantissaBits)) + (static_cast<uint32_t>(127 - T::kBias) << 23);
    const float subnormal =
        static_cast<float>(static_cast<int32_t>(code)) * detail::powerOfTwo(1 - T::kBias - T::kMantissaBits);
    uint32_t bits = detail::select(code < (1U << T::kMantissaBits), std::bit_cast<uint32_t>(subnormal), normal);
    bits |=
        detail::select(code >= T::kSpecial, detail::kInfinityBits, 0);  // the mantissa tells infinity from NaN
    return std::bit_cast<float>(bits | sign);
  }
}

/// `x` rounded to T; see the head of this file for ties, overflow and NaN.
template <class T>
requires kIsLowPrecision<T>
constexpr T narrow(float x) {
  constexpr int kWidth = 8 * sizeof(typename T::Bits);
  constexpr uint32_t kMagnitude = (1U << (kWidth - 1)) - 1;
  constexpr int kDropped = 23 - T::kMantissaBits;
  const uint32_t all = std::bit_cast<uint32_t>(x);
  const uint32_t sign = (all >> 31) << (kWidth - 1);
  const uint32_t magnitude = all & 0x7fffffffU;
  // Half a unit less one, plus one where the kept mantissa is odd: carries exactly when RNE goes up.
  const uint32_t rounded = magnitude + ((1U << (kDropped - 1)) - 1) + ((magnitude >> kDropped) & 1);
  uint32_t code = (rounded >> kDropped) - (static_cast<uint32_t>(127 - T::kBias) << T::kMantissaBits);
  if constexpr (!std::is_same_v<T, Bfloat16>) {  // bfloat16's subnormals are fp32's, shifted
    // One unit of this float is one unit of T's subnormals, so the addition itself rounds to them.
    constexpr float kUnit = detail::powerOfTwo(24 - T::kBias - T::kMantissaBits);
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + kUnit) - std::bit_cast<uint32_t>(kUnit);
    code = detail::select(magnitude < (static_cast<uint32_t>(128 - T::kBias) << 23), subnormal, code);
  }
  // Signed comparisons: every magnitude is below 2^31, and SSE2 has no unsigned ones.
  code = detail::select(static_cast<int32_t>(code) > static_cast<int32_t>(T::kOverflow), T::kOverflow, code);
  const bool isNan = static_cast<int32_t>(magnitude) > static_cast<int32_t>(detail::kInfinityBits);
  return T{static_cast<typename T::Bits>(detail::select(isNan, kMagnitude, code | sign))};
}

}  // namespace eccl
