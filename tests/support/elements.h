// Elements of every data type as test data: bytes that can be filled at random and read as numbers.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/types.h"

namespace eccl::elements {

using Random = std::mt19937_64;
using Bytes = std::vector<uint8_t>;

#define ECCL_TYPE(name, Element, text) DataType::name,
inline constexpr DataType kAllTypes[] = {ECCL_DATA_TYPES(ECCL_TYPE)};
#undef ECCL_TYPE
inline constexpr RedOp kAllOps[] = {RedOp::sum, RedOp::prod, RedOp::max, RedOp::min};

/// "float32_sum".
inline std::string nameOfCase(const ::testing::TestParamInfo<std::tuple<DataType, RedOp>>& info) {
  return std::string(nameOf(std::get<0>(info.param))) + "_" + nameOf(std::get<1>(info.param));
}

/// Bits after the leading one, the exponent of the smallest normal, and the largest value.
struct FloatFormat {
  int mantissa, minExponent;
  double largest;
};
inline FloatFormat formatOf(DataType type) {
  switch (type) {
    case DataType::float16:
      return {10, -14, 65504};
    case DataType::bfloat16:
      return {7, -126, std::ldexp(255, 120)};
    case DataType::float8e4m3:
      return {3, -6, 448};
    case DataType::float8e5m2:
      return {2, -14, 57344};
    case DataType::float32:
      return {23, -126, std::numeric_limits<float>::max()};
    default:
      return {52, -1022, std::numeric_limits<double>::max()};
  }
}

template <class T>
T get(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// The float element at `at`; every value of every type is exact in a double.
inline double realAt(DataType type, const void* at) {
  return visitElement(type, [at]<class E>(std::type_identity<E>) -> double {
    if constexpr (kIsLowPrecision<E>)
      return widen(get<E>(at));
    else
      return static_cast<double>(get<E>(at));
  });
}

/// Writes `value`, rounded.
inline void putReal(DataType type, double value, void* at) {
  visitElement(type, [&]<class E>(std::type_identity<E>) {
    E element;
    if constexpr (kIsLowPrecision<E>)
      element = narrow<E>(static_cast<float>(value));
    else
      element = static_cast<E>(value);
    std::memcpy(at, &element, sizeof element);
  });
}

/// The integer element at `at`, sign- or zero-extended.
inline uint64_t integerAt(DataType type, const void* at) {
  return visitElement(type, [at]<class E>(std::type_identity<E>) -> uint64_t {
    if constexpr (std::is_integral_v<E>)
      return static_cast<uint64_t>(get<E>(at));
    else
      return get<uint64_t>(at);
  });
}

/// Writes `value`, which the type can hold.
inline void putInteger(DataType type, uint64_t value, void* at) {
  std::memcpy(at, &value, sizeOf(type));  // little-endian, as everything ECCL runs on
}

/// `count` elements of any bits: all exponents, subnormals, infinities, NaNs.
inline Bytes randomBits(DataType type, size_t count, Random& random) {
  Bytes bytes(count * sizeOf(type));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

/// `count` numbers of magnitude low … high with either sign, so that roundings and cancellations are frequent.
inline Bytes randomReals(DataType type, size_t count, double low, double high, Random& random) {
  Bytes bytes(count * sizeOf(type));
  std::uniform_real_distribution<double> magnitude(low, high);
  for (size_t i = 0; i < count; ++i) {
    putReal(type, random() % 2 == 0 ? magnitude(random) : -magnitude(random), &bytes[i * sizeOf(type)]);
  }
  return bytes;
}

/// Puts zeros of both signs, infinities, NaNs, the largest and the smallest values in every few elements'
/// place.
inline void sprinkleSpecials(DataType type, Bytes& bytes, Random& random) {
  if (!isFloating(type)) return;
  const FloatFormat format = formatOf(type);
  const double infinity = std::numeric_limits<double>::infinity();
  const double specials[] = {0.0, infinity, std::nan(""), format.largest,
                             std::ldexp(1, format.minExponent - format.mantissa)};
  for (size_t at = 0; at < bytes.size(); at += sizeOf(type)) {
    if (random() % 4 != 0) continue;
    const double special = specials[random() % std::size(specials)];
    putReal(type, random() % 2 == 0 ? special : -special, &bytes[at]);
  }
}

}  // namespace eccl::elements
