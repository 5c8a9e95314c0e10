#include "base/low_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace eccl {
namespace {

// What the formats' definitions say, in arithmetic that shares nothing with the code under test.
template <class T>
struct Format;
template <>
struct Format<Half> {
  static constexpr int width = 16, mantissa = 10, bias = 15, finite = 0x7bff;
  static constexpr bool infinity = true, saturates = false;
};
template <>
struct Format<Bfloat16> {
  static constexpr int width = 16, mantissa = 7, bias = 127, finite = 0x7f7f;
  static constexpr bool infinity = true, saturates = false;
};
template <>
struct Format<Float8e4m3> {
  static constexpr int width = 8, mantissa = 3, bias = 7, finite = 0x7e;
  static constexpr bool infinity = false, saturates = true;
};
template <>
struct Format<Float8e5m2> {
  static constexpr int width = 8, mantissa = 2, bias = 15, finite = 0x7b;
  static constexpr bool infinity = true, saturates = true;
};

template <class T>
double valueOf(int code) {
  using F = Format<T>;
  const int magnitude = code & ((1 << (F::width - 1)) - 1);
  const double sign = code >> (F::width - 1) ? -1 : 1;
  if (magnitude > F::finite) {
    const bool infinite = F::infinity && magnitude == F::finite + 1;
    return infinite ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  const int exponent = magnitude >> F::mantissa, fraction = magnitude & ((1 << F::mantissa) - 1);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - F::bias - F::mantissa);
  return sign * std::ldexp((1 << F::mantissa) + fraction, exponent - F::bias - F::mantissa);
}

/// The code nearest to `x` by search among all values, ties to the even code.
template <class T>
class Nearest {
 public:
  using F = Format<T>;
  Nearest() {
    for (int code = 0; code <= F::finite; ++code) values_.push_back(valueOf<T>(code));
  }
  int operator()(float x) const {
    const int top = 1 << (F::width - 1);
    if (std::isnan(x)) return top - 1;
    const int sign = std::signbit(x) ? top : 0;
    const double magnitude = std::fabs(static_cast<double>(x));
    const size_t above = std::upper_bound(values_.begin(), values_.end(), magnitude) - values_.begin();
    const size_t below = above - 1;
    if (above == values_.size()) {
      // The next value, were there one more, decides where overflow begins.
      const double next = values_[below] + (values_[below] - values_[below - 1]);
      const bool overflows = magnitude - values_[below] >= next - magnitude;
      return sign | (overflows && !F::saturates ? F::finite + 1 : F::finite);
    }
    const double down = magnitude - values_[below], up = values_[above] - magnitude;
    return sign | static_cast<int>(down < up || (down == up && below % 2 == 0) ? below : above);
  }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;  // by code, ascending
};

template <class T>
class LowPrecision : public ::testing::Test {};
using Types = ::testing::Types<Half, Bfloat16, Float8e4m3, Float8e5m2>;
TYPED_TEST_SUITE(LowPrecision, Types);

template <class T>
T fromCode(int code) {
  return T{static_cast<typename T::Bits>(code)};
}

TYPED_TEST(LowPrecision, WidensEveryCodeExactly) {
  for (int code = 0; code < 1 << Format<TypeParam>::width; ++code) {
    const double expected = valueOf<TypeParam>(code);
    const float actual = widen(fromCode<TypeParam>(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << code;
    } else {
      EXPECT_EQ(expected, actual) << code;
      EXPECT_EQ(std::signbit(expected), std::signbit(actual)) << code;
    }
  }
}

TYPED_TEST(LowPrecision, NarrowsEveryWidenedCodeToItself) {
  using F = Format<TypeParam>;
  for (int code = 0; code < 1 << F::width; ++code) {
    const double value = valueOf<TypeParam>(code);
    int expected = code;
    if (std::isnan(value)) expected = (1 << (F::width - 1)) - 1;
    if (std::isinf(value) && F::saturates) expected = code - 1;
    EXPECT_EQ(expected, narrow<TypeParam>(widen(fromCode<TypeParam>(code))).bits) << code;
  }
}

TYPED_TEST(LowPrecision, RoundsToNearestWithTiesToEven) {
  const Nearest<TypeParam> nearest;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto check = [&](float x) {
    ASSERT_EQ(nearest(x), narrow<TypeParam>(x).bits) << std::hexfloat << x;
    ASSERT_EQ(nearest(-x), narrow<TypeParam>(-x).bits) << std::hexfloat << -x;
  };
  for (size_t i = 0; i + 1 < nearest.values().size(); ++i) {
    const float middle = static_cast<float>((nearest.values()[i] + nearest.values()[i + 1]) / 2);  // exact
    check(middle);
    check(std::nextafter(middle, infinity));
    check(std::nextafter(middle, -infinity));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 1000000; ++i) check(std::bit_cast<float>(static_cast<uint32_t>(random())));
}

TYPED_TEST(LowPrecision, TreatsTheEndsAsStated) {
  using F = Format<TypeParam>;
  const int top = 1 << (F::width - 1);
  const int beyond = F::saturates ? F::finite : F::finite + 1;
  const float infinity = std::numeric_limits<float>::infinity();
  const auto code = [](float x) { return int{narrow<TypeParam>(x).bits}; };
  EXPECT_EQ(beyond, code(infinity));
  EXPECT_EQ(top | beyond, code(-infinity));
  EXPECT_EQ(beyond, code(std::numeric_limits<float>::max()));
  EXPECT_EQ(top | beyond, code(std::numeric_limits<float>::lowest()));
  EXPECT_EQ(top - 1, code(std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(top - 1, code(-std::numeric_limits<float>::quiet_NaN()));
  EXPECT_EQ(top - 1,
            code(std::bit_cast<float>(0x7f800001U)));  // a signalling NaN with its payload at the bottom
  EXPECT_EQ(top - 1, code(std::bit_cast<float>(kNanBits32)));
  EXPECT_EQ(0, code(0.0F));
  EXPECT_EQ(top, code(-0.0F));
}

#if defined(__aarch64__)
#define ECCL_COMPILERS_HALF __fp16
#elif defined(__FLT16_MANT_DIG__)
#define ECCL_COMPILERS_HALF _Float16
#endif

TEST(LowPrecisionHalf, AgreesWithTheCompilersOwn) {
#ifdef ECCL_COMPILERS_HALF
  using Other = ECCL_COMPILERS_HALF;
  for (int code = 0; code < 1 << 16; ++code) {
    const auto bits = static_cast<uint16_t>(code);
    const float expected = static_cast<float>(std::bit_cast<Other>(bits)), actual = widen(Half{bits});
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(actual)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(expected), std::bit_cast<uint32_t>(actual)) << code;
    }
  }
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 2039) {  // a prime: all low bits take part
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(x)) continue;  // payloads are ours to choose
    ASSERT_EQ(std::bit_cast<uint16_t>(static_cast<Other>(x)), narrow<Half>(x).bits) << std::hexfloat << x;
  }
#else
  GTEST_SKIP() << "this compiler has no 16-bit float of its own on this machine";
#endif
}

TEST(LowPrecisionConstants, AreUsableAtCompileTime) {
  static_assert(widen(Float8e4m3{0x7e}) == 448);
  static_assert(widen(Float8e5m2{0x7b}) == 57344);
  static_assert(narrow<Bfloat16>(1.0F).bits == 0x3f80);
  static_assert(narrow<Half>(65519.0F).bits == 0x7bff);
  static_assert(narrow<Half>(65520.0F).bits == 0x7c00);
}

}  // namespace
}  // namespace eccl
