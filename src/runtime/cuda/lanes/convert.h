// Elements widened and delivered, several at a time: by a GPU's instructions where it has them, two elements
// for each. They give the bits of kernels/element.h, whose NaN and saturation are theirs (PTX ISA 8.1, cvt).
#pragma once

#include <bit>

#include "kernels/element.h"
#include "runtime/cuda/lanes/block.h"

namespace eccl::runtime::cuda::lanes {

// The next loop is unrolled, so that what it indexes is in registers.
#if defined(__CUDACC__)
#define ECCL_UNROLL _Pragma("unroll")
#else
#define ECCL_UNROLL
#endif

/// Bytes as elements.
template <class E, int N>
struct Pack {
  E elements[N];
};

/// Whether this GPU has instructions to convert E from and to fp32. Bfloat16 needs none to be widened.
template <class E>
ECCL_DEVICE constexpr bool converts() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  return kIsLowPrecision<E>;
#elif defined(__CUDA_ARCH__)
  return std::is_same_v<E, Half> || std::is_same_v<E, Bfloat16>;
#else
  return false;
#endif
}

// Two elements by a GPU's instructions.
template <class E>
ECCL_DEVICE void widenPair(Pack<E, 2> from, float* to);
template <class E>
ECCL_DEVICE Pack<E, 2> narrowPair(float first, float second);

#if defined(__CUDA_ARCH__)
ECCL_DEVICE inline float widenHalf(uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

template <class E>
ECCL_DEVICE void widenPair(Pack<E, 2> from, float* to) {
  if constexpr (std::is_same_v<E, Half>) {
    to[0] = widenHalf(from.elements[0].bits);
    to[1] = widenHalf(from.elements[1].bits);
  } else if constexpr (std::is_same_v<E, Bfloat16>) {
    to[0] = widen(from.elements[0]);
    to[1] = widen(from.elements[1]);
  } else {
    uint32_t halves;
    if constexpr (std::is_same_v<E, Float8e4m3>)
      asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(std::bit_cast<uint16_t>(from)));
    else
      asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(std::bit_cast<uint16_t>(from)));
    to[0] = widenHalf(static_cast<uint16_t>(halves));
    to[1] = widenHalf(static_cast<uint16_t>(halves >> 16));
  }
}

template <class E>
ECCL_DEVICE Pack<E, 2> narrowPair(float first, float second) {
  if constexpr (sizeof(E) == 2) {
    uint32_t both;
    if constexpr (std::is_same_v<E, Half>)
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    else
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return std::bit_cast<Pack<E, 2>>(both);
  } else {
    uint16_t both;
    if constexpr (std::is_same_v<E, Float8e4m3>)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(second), "f"(first));
    return std::bit_cast<Pack<E, 2>>(both);
  }
}
#endif

template <class E, int N>
ECCL_DEVICE inline void widenAll(const Pack<E, N>& from, kernels::Accumulator<E> (&to)[N]) {
  if constexpr (converts<E>() && N % 2 == 0) {
    ECCL_UNROLL
    for (int i = 0; i < N; i += 2) widenPair(Pack<E, 2>{from.elements[i], from.elements[i + 1]}, to + i);
  } else {
    ECCL_UNROLL
    for (int i = 0; i < N; ++i) to[i] = kernels::widened(from.elements[i]);
  }
}

template <class E, int N>
ECCL_DEVICE inline Pack<E, N> deliverAll(const kernels::Accumulator<E> (&from)[N]) {
  Pack<E, N> to;
  if constexpr (converts<E>() && N % 2 == 0) {
    ECCL_UNROLL
    for (int i = 0; i < N; i += 2) {
      const auto pair = narrowPair<E>(from[i], from[i + 1]);
      to.elements[i] = pair.elements[0];
      to.elements[i + 1] = pair.elements[1];
    }
  } else {
    ECCL_UNROLL
    for (int i = 0; i < N; ++i) to.elements[i] = kernels::delivered<E>(from[i]);
  }
  return to;
}

}  // namespace eccl::runtime::cuda::lanes
