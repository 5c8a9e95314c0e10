#include "common/types.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace eccl::perf {

// 64-bit integers stop below 2^53 because answers are computed in doubles; their scale reaches the high bits.
const TypeInfo kTypeInfos[kTypes] = {
    {"int8", ecclInt8, 1, false, true, 0, 0, 0, 127, 0, 0},
    {"uint8", ecclUint8, 1, false, false, 0, 0, 0, 255, 0, 0},
    {"int32", ecclInt32, 4, false, true, 0, 0, 0, 0x1p31 - 1, 0, 0},
    {"uint32", ecclUint32, 4, false, false, 0, 0, 0, 0x1p32 - 1, 0, 0},
    {"int64", ecclInt64, 8, false, true, 0, 0, 0, 0x1p53 - 1, 0, 10},
    {"uint64", ecclUint64, 8, false, false, 0, 0, 0, 0x1p53 - 1, 0, 11},
    {"half", ecclFloat16, 2, true, true, 10, -14, 15, 0x1p11, -2, 2},
    {"float", ecclFloat32, 4, true, true, 23, -126, 127, 0x1p24, -2, 2},
    {"double", ecclFloat64, 8, true, true, 52, -1022, 1023, 0x1p53, -2, 2},
    {"bfloat16", ecclBfloat16, 2, true, true, 7, -126, 127, 0x1p8, -2, 2},
    {"f8e4m3", ecclFloat8e4m3, 1, true, true, 3, -6, 8, 0x1p4, -2, 2},
    {"f8e5m2", ecclFloat8e5m2, 1, true, true, 2, -14, 15, 0x1p3, -2, 2},
};

const char* const kOpNames[kOps] = {"sum", "prod", "max", "min", "avg", "mulsum"};

namespace {

// e4m3 spends its top exponent on numbers: no infinity, and NaN is the one pattern 1111.111.
bool hasInfinity(const TypeInfo& type) {
  return type.type != ecclFloat8e4m3;
}

// Works in units of the last place: the magnitude as a whole number of them, rounded to even by nearbyint, is
// the significand with its implicit bit.
uint64_t encodeSmallFloat(const TypeInfo& type, double value) {
  const int mantissa = type.mantissaBits;
  const int bias = 1 - type.minExponent;
  const uint64_t sign = static_cast<uint64_t>(std::signbit(value)) << (8 * type.bytes - 1);
  const uint64_t exponentTop = static_cast<uint64_t>(type.maxExponent + bias + (hasInfinity(type) ? 1 : 0));
  const uint64_t nan = (exponentTop << mantissa) | ((uint64_t{1} << mantissa) - 1);
  if (std::isnan(value)) return sign | nan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent =
      std::isinf(magnitude) ? type.maxExponent + 1 : std::max(std::ilogb(magnitude), type.minExponent);
  double steps = std::isinf(magnitude) ? 0 : std::nearbyint(std::ldexp(magnitude, mantissa - exponent));
  if (steps >= std::ldexp(1, mantissa + 1)) {
    steps /= 2;
    ++exponent;
  }
  const uint64_t whole = static_cast<uint64_t>(steps);
  // A subnormal has no implicit bit and exponent field 0, which the sum below gives by itself.
  const uint64_t bits = (static_cast<uint64_t>(exponent + bias - 1) << mantissa) + whole;
  const uint64_t infinity = exponentTop << mantissa;
  if (hasInfinity(type)) {
    const uint64_t largest = type.bytes == 1 ? infinity - 1 : infinity;  // fp8 saturates
    return sign | (exponent > type.maxExponent ? largest : bits);
  }
  return sign | (exponent > type.maxExponent || bits >= nan ? nan - 1 : bits);
}

double decodeSmallFloat(const TypeInfo& type, uint64_t bits) {
  const int mantissa = type.mantissaBits;
  const int width = 8 * type.bytes;
  const bool negative = (bits >> (width - 1)) & 1;
  const uint64_t field = (bits & ((uint64_t{1} << (width - 1)) - 1)) >> mantissa;
  const uint64_t fraction = bits & ((uint64_t{1} << mantissa) - 1);
  const uint64_t top = (uint64_t{1} << (width - 1 - mantissa)) - 1;
  double magnitude;
  if (field == top && hasInfinity(type)) {
    magnitude =
        fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (field == top && fraction == (uint64_t{1} << mantissa) - 1) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (field == 0) {
    magnitude = std::ldexp(static_cast<double>(fraction), type.minExponent - mantissa);
  } else {
    magnitude = std::ldexp(static_cast<double>(fraction + (uint64_t{1} << mantissa)),
                           static_cast<int>(field) - 1 + type.minExponent - mantissa);
  }
  return negative ? -magnitude : magnitude;
}

template <class T>
uint64_t bitsOf(T value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T fromBits(uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);  // the machine is little-endian, as the library requires
  return value;
}

}  // namespace

uint64_t encode(const TypeInfo& type, double value) {
  switch (type.type) {
    case ecclInt8:
      return bitsOf(static_cast<int8_t>(value));
    case ecclUint8:
      return bitsOf(static_cast<uint8_t>(value));
    case ecclInt32:
      return bitsOf(static_cast<int32_t>(value));
    case ecclUint32:
      return bitsOf(static_cast<uint32_t>(value));
    case ecclInt64:
      return bitsOf(static_cast<int64_t>(value));
    case ecclUint64:
      return static_cast<uint64_t>(value);
    case ecclFloat32:
      return bitsOf(static_cast<float>(value));
    case ecclFloat64:
      return bitsOf(value);
    default:
      return encodeSmallFloat(type, value);
  }
}

double decode(const TypeInfo& type, uint64_t bits) {
  switch (type.type) {
    case ecclInt8:
      return fromBits<int8_t>(bits);
    case ecclUint8:
      return fromBits<uint8_t>(bits);
    case ecclInt32:
      return fromBits<int32_t>(bits);
    case ecclUint32:
      return fromBits<uint32_t>(bits);
    case ecclInt64:
      return static_cast<double>(fromBits<int64_t>(bits));
    case ecclUint64:
      return static_cast<double>(bits);
    case ecclFloat32:
      return fromBits<float>(bits);
    case ecclFloat64:
      return fromBits<double>(bits);
    default:
      return decodeSmallFloat(type, bits);
  }
}

double ulp(const TypeInfo& type, double value) {
  const int exponent = value == 0 ? type.minExponent : std::max(std::ilogb(value), type.minExponent);
  return std::ldexp(1, exponent - type.mantissaBits);
}

}  // namespace eccl::perf
