// The arithmetic of one element: how it is widened, combined, scaled and delivered. The definition of every
// reduction's bits, for the reference and for devices. Plain constexpr functions: one source for both. Devices
// are compiled without contraction of multiplications and additions (nvcc's -fmad=false).
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/low_precision.h"
#include "kernels/reduce.h"

namespace eccl::kernels {

/// What elements of type E are combined in.
template <class E>
using Accumulator = std::conditional_t<kIsLowPrecision<E>, float, E>;

/// An element's value, exactly.
template <class E>
constexpr Accumulator<E> widened(E element) {
  if constexpr (kIsLowPrecision<E>)
    return widen(element);
  else
    return element;
}

/// The element to deliver, with the one NaN.
template <class E>
constexpr E delivered(Accumulator<E> x) {
  if constexpr (kIsLowPrecision<E>)
    return narrow<E>(x);
  else if constexpr (std::is_same_v<E, float>)
    return x != x ? std::bit_cast<float>(kNanBits32) : x;
  else if constexpr (std::is_same_v<E, double>)
    return x != x ? std::bit_cast<double>(kNanBits64) : x;
  else
    return x;
}

/// IEEE 754-2019 maximum or minimum. Operands that are equal differ at most in the sign, of zeros: and-ing the
/// bits keeps +0, or-ing keeps -0.
template <bool kMax, class T>
constexpr T extreme(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return (kMax ? a < b : b < a) ? b : a;
  } else {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
    const T zeros = std::bit_cast<T>(kMax ? x & y : x | y);
    const T ordered = a == b ? zeros : (kMax ? a < b : b < a) ? b : a;
    return b != b ? b : ordered;  // with a NaN in `a` every comparison above was false and chose it
  }
}

/// One step of a reduction. Integers wrap.
template <RedOp kOp, class T>
constexpr T combine(T a, T b) {
  if constexpr (kOp == RedOp::max || kOp == RedOp::min) {
    return extreme<kOp == RedOp::max>(a, b);
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;  // wraps; as int, overflow would be undefined
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    return static_cast<T>(kOp == RedOp::sum ? x + y : x * y);
  } else {
    return kOp == RedOp::sum ? a + b : a * b;
  }
}

/// The factor or divisor of a scale that is one of T.
template <class T>
constexpr T factorOf(const Scale& scale) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(scale.integer);
  else
    return static_cast<T>(scale.real);
}

/// `value` scaled. The scale is not none.
template <class T>
constexpr T scaled(T value, const Scale& scale) {
  if (scale.kind == Scale::Kind::multiply) return combine<RedOp::prod>(value, factorOf<T>(scale));
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value / static_cast<std::common_type_t<T, int>>(scale.integer));
  else
    return value / static_cast<T>(scale.integer);
}

}  // namespace eccl::kernels
