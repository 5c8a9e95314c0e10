// The reference against independent arithmetic, and the rules that reduce.h states, one by one.
#include "kernels/reduce.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "support/elements.h"

namespace eccl::kernels {
namespace {

using elements::Bytes;
using elements::Random;

class Reference : public ::testing::TestWithParam<std::tuple<DataType, RedOp>> {
 protected:
  const DataType type_ = std::get<0>(GetParam());
  const RedOp op_ = std::get<1>(GetParam());
  const size_t size_ = sizeOf(type_);
  Random random_{2};

  /// `inputs` reduced by the reference.
  Bytes reduced(ReduceTask task, const std::vector<Bytes>& inputs) {
    Bytes result(inputs[0].size());
    task.type = type_;
    task.op = op_;
    task.count = result.size() / size_;
    task.sources = static_cast<uint8_t>(inputs.size());
    task.destinations = 1;
    for (size_t s = 0; s < inputs.size(); ++s) task.source[s] = inputs[s].data();
    task.destination[0] = result.data();
    reduceReference(task);
    return result;
  }
};

class IntegerReference : public Reference {};

// Arithmetic modulo 2^64 is arithmetic modulo 2^n in the lower n bits.
TEST_P(IntegerReference, WrapsAndDividesAsStated) {
  const auto truncated = [&](uint64_t value) {
    return elements::integerAt(type_, reinterpret_cast<const uint8_t*>(&value));
  };
  for (int sources = 1; sources <= kMaxOperands; ++sources) {
    for (int scaling = 0; scaling < 4; ++scaling) {
      std::vector<Bytes> inputs;
      for (int s = 0; s < sources; ++s) inputs.push_back(elements::randomBits(type_, 300, random_));
      ReduceTask task;
      std::vector<uint64_t> factors(sources, 1);
      const int32_t divisor = scaling == 2 ? 7 : scaling == 3 ? 1000 : 1;
      if (scaling > 0) {
        for (int s = 0; s < sources; ++s) {
          factors[s] = random_();
          task.pre[s] = Scale::multiplyByInteger(static_cast<int64_t>(factors[s]));
        }
      }
      if (divisor != 1) task.post = Scale::divideBy(divisor);
      const Bytes result = reduced(task, inputs);
      for (size_t at = 0; at < result.size(); at += size_) {
        uint64_t expected = 0;
        for (int s = 0; s < sources; ++s) {
          const uint64_t x = truncated(elements::integerAt(type_, &inputs[s][at]) * factors[s]);
          const bool greater =
              isSigned(type_) ? static_cast<int64_t>(x) > static_cast<int64_t>(expected) : x > expected;
          if (s == 0)
            expected = x;
          else if (op_ == RedOp::sum)
            expected += x;
          else if (op_ == RedOp::prod)
            expected *= x;
          else if (greater == (op_ == RedOp::max))
            expected = x;
        }
        expected = truncated(expected);
        expected = isSigned(type_) ? static_cast<uint64_t>(static_cast<int64_t>(expected) / divisor)
                                   : expected / static_cast<uint64_t>(divisor);
        ASSERT_EQ(expected, elements::integerAt(type_, &result[at]))
            << sources << " sources, scaling " << scaling;
      }
    }
  }
}

class FloatReference : public Reference {};

// The bound: each operation in fp32 (fp64) is off by at most u of what it yields, for sums of what has been
// summed up in absolute value; a scaling counts twice, for its factor is rounded too. Then half a unit of the
// last place of the type, for the one rounding at the end.
TEST_P(FloatReference, StaysWithinTheErrorBound) {
  const double u = type_ == DataType::float64 ? 0x1p-53 : 0x1p-24;
  const elements::FloatFormat format = elements::formatOf(type_);
  for (int sources = 1; sources <= kMaxOperands; ++sources) {
    for (int scaling = 0; scaling < 3; ++scaling) {
      std::vector<Bytes> inputs;
      for (int s = 0; s < sources; ++s) inputs.push_back(elements::randomReals(type_, 300, 0.5, 1.5, random_));
      ReduceTask task;
      std::vector<double> factors(sources, 1);
      double after = 1;
      if (scaling > 0) {
        for (int s = 0; s < sources; ++s) task.pre[s] = Scale::multiplyBy(factors[s] = 1.0 / (1 + s % 3));
      }
      if (scaling == 2) task.post = Scale::multiplyBy(after = -0.7);
      const Bytes result = reduced(task, inputs);
      for (size_t at = 0; at < result.size(); at += size_) {
        long double exact = 0, magnitude = 0;
        for (int s = 0; s < sources; ++s) {
          const long double x = static_cast<long double>(elements::realAt(type_, &inputs[s][at])) * factors[s];
          magnitude = op_ == RedOp::prod && s > 0 ? magnitude * std::fabs(x) : magnitude + std::fabs(x);
          if (s == 0)
            exact = x;
          else if (op_ == RedOp::sum)
            exact += x;
          else if (op_ == RedOp::prod)
            exact *= x;
          else
            exact = (op_ == RedOp::max) == (x > exact) ? x : exact;
        }
        exact *= after;
        magnitude *= std::fabs(after);
        const long double combining = (sources - 1 + 2 * sources + 2) * u * 1.001L * magnitude;
        const int exponent = std::max(std::ilogb(std::fabs(exact) + combining), format.minExponent);
        const long double rounding = std::ldexp(0.5L, exponent - format.mantissa);
        ASSERT_NEAR(exact, elements::realAt(type_, &result[at]), combining + rounding)
            << sources << " sources, scaling " << scaling;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, IntegerReference,
                         ::testing::Combine(::testing::ValuesIn(elements::kAllTypes, elements::kAllTypes + 6),
                                            ::testing::ValuesIn(elements::kAllOps)),
                         elements::nameOfCase);
INSTANTIATE_TEST_SUITE_P(All, FloatReference,
                         ::testing::Combine(::testing::ValuesIn(elements::kAllTypes + 6,
                                                                elements::kAllTypes + 12),
                                            ::testing::ValuesIn(elements::kAllOps)),
                         elements::nameOfCase);

/// Element-wise result of every variant on 300 copies of the given elements; fails when they disagree.
template <class T>
T reduceOne(DataType type, RedOp op, std::vector<T> elements, Scale post = {}) {
  constexpr size_t kCount = 300;  // vectors and the rest after them
  std::vector<std::vector<T>> inputs;
  for (T element : elements) inputs.emplace_back(kCount, element);
  std::vector<T> result(kCount);
  ReduceTask task;
  task.type = type;
  task.op = op;
  task.sources = static_cast<uint8_t>(inputs.size());
  task.destinations = 1;
  task.count = kCount;
  task.post = post;
  for (size_t s = 0; s < inputs.size(); ++s) task.source[s] = inputs[s].data();
  task.destination[0] = result.data();
  reduce(task);
  for (size_t i = 1; i < kCount; ++i)
    EXPECT_EQ(0, std::memcmp(&result[0], &result[i], sizeof(T))) << "element " << i;
  return result[0];
}

uint32_t bitsOf(float x) {
  return std::bit_cast<uint32_t>(x);
}

TEST(Reduce, CombinesFromLeftToRight) {
  EXPECT_EQ(1.0F, reduceOne<float>(DataType::float32, RedOp::sum, {1e30F, -1e30F, 1}));
  EXPECT_EQ(0.0F, reduceOne<float>(DataType::float32, RedOp::sum, {1, 1e30F, -1e30F}));
}

TEST(Reduce, RoundsLowPrecisionOnce) {
  // 1 + 2^-8 + 2^-8: rounded after each addition, ties to even would keep 1.
  const uint16_t one = 0x3f80, small = 0x3b80;
  EXPECT_EQ(0x3f81, reduceOne<uint16_t>(DataType::bfloat16, RedOp::sum, {one, small, small}));
  EXPECT_EQ(0x3f80, reduceOne<uint16_t>(DataType::bfloat16, RedOp::sum, {one, small}));
}

TEST(Reduce, DoesNotFuseMultiplyAndAdd) {
  // x² rounds to 1 + 2^-11; fused with the subtraction the lost 2^-24 would appear.
  const float x = 1 + 0x1p-12F, square = 1 + 0x1p-11F;
  ReduceTask task;
  float result = -1;
  task.type = DataType::float32;
  task.sources = 2;
  task.destinations = 1;
  task.count = 1;
  const float minusSquare = -square;
  task.source[0] = &minusSquare;
  task.source[1] = &x;
  task.pre[1] = Scale::multiplyBy(x);
  task.destination[0] = &result;
  reduce(task);
  EXPECT_EQ(0.0F, result);
}

TEST(Reduce, PropagatesOneNan) {
  const float nan = -std::nanf("77");
  for (RedOp op : elements::kAllOps) {
    EXPECT_EQ(kNanBits32, bitsOf(reduceOne<float>(DataType::float32, op, {nan, 1}))) << nameOf(op);
    EXPECT_EQ(kNanBits32, bitsOf(reduceOne<float>(DataType::float32, op, {1, nan}))) << nameOf(op);
    EXPECT_EQ(kNanBits32, bitsOf(reduceOne<float>(DataType::float32, op, {1, nan, 2}))) << nameOf(op);
    EXPECT_EQ(kNanBits64, (reduceOne<uint64_t>(DataType::float64, op, {0xfff0000000000001, 0}))) << nameOf(op);
    EXPECT_EQ(0x7fff, reduceOne<uint16_t>(DataType::float16, op, {0xfc01, 0x3c00})) << nameOf(op);
    EXPECT_EQ(0x7fff, reduceOne<uint16_t>(DataType::bfloat16, op, {0x3f80, 0xff81})) << nameOf(op);
    EXPECT_EQ(0x7f, reduceOne<uint8_t>(DataType::float8e4m3, op, {0xff, 0x38})) << nameOf(op);
    EXPECT_EQ(0x7f, reduceOne<uint8_t>(DataType::float8e5m2, op, {0x3c, 0xfd})) << nameOf(op);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kNanBits32, bitsOf(reduceOne<float>(DataType::float32, RedOp::sum, {infinity, -infinity})));
}

TEST(Reduce, OrdersZeros) {
  for (const auto& order : {std::vector<float>{0.0F, -0.0F}, std::vector<float>{-0.0F, 0.0F}}) {
    EXPECT_EQ(bitsOf(0.0F), bitsOf(reduceOne<float>(DataType::float32, RedOp::max, order)));
    EXPECT_EQ(bitsOf(-0.0F), bitsOf(reduceOne<float>(DataType::float32, RedOp::min, order)));
  }
}

TEST(Reduce, SaturatesFp8Only) {
  EXPECT_EQ(0x7e, reduceOne<uint8_t>(DataType::float8e4m3, RedOp::sum, {0x7e, 0x7e}));
  EXPECT_EQ(0xfe, reduceOne<uint8_t>(DataType::float8e4m3, RedOp::sum, {0xfe, 0xfe}));
  EXPECT_EQ(0x7b, reduceOne<uint8_t>(DataType::float8e5m2, RedOp::sum, {0x7b, 0x7b}));
  EXPECT_EQ(0x7b, reduceOne<uint8_t>(DataType::float8e5m2, RedOp::sum, {0x7c, 0x00})) << "infinity";
  EXPECT_EQ(0x7c00, reduceOne<uint16_t>(DataType::float16, RedOp::sum, {0x7bff, 0x7bff}));
  EXPECT_EQ(0x7f80, reduceOne<uint16_t>(DataType::bfloat16, RedOp::sum, {0x7f7f, 0x7f7f}));
  // Not within one task: 448 + 448 - 448 is representable.
  EXPECT_EQ(0x7e, reduceOne<uint8_t>(DataType::float8e4m3, RedOp::sum, {0x7e, 0x7e, 0xfe}));
}

TEST(Reduce, DividesIntegersTowardsZero) {
  EXPECT_EQ(-2, reduceOne<int32_t>(DataType::int32, RedOp::sum, {-3, -5}, Scale::divideBy(3)));
  EXPECT_EQ(2, reduceOne<int32_t>(DataType::int32, RedOp::sum, {3, 5}, Scale::divideBy(3)));
  EXPECT_EQ(0xffffffffU / 3,
            reduceOne<uint32_t>(DataType::uint32, RedOp::sum, {0xffffffffU, 0}, Scale::divideBy(3)));
  // The divisor need not fit into the type, as for Avg over 300 ranks.
  EXPECT_EQ(0, reduceOne<int8_t>(DataType::int8, RedOp::sum, {100, 27}, Scale::divideBy(300)));
  EXPECT_EQ(2.5F, reduceOne<float>(DataType::float32, RedOp::sum, {3, 2}, Scale::divideBy(2)));
}

TEST(Reduce, CopiesEveryBit) {
  for (DataType type : elements::kAllTypes) {
    Random random(3);
    const Bytes input = elements::randomBits(type, 333, random);
    Bytes output(input.size()), self = input;
    ReduceTask task;
    task.type = type;
    task.sources = 1;
    task.destinations = 2;
    task.count = 333;
    task.source[0] = self.data();
    task.destination[0] = self.data();
    task.destination[1] = output.data();
    reduce(task);
    EXPECT_EQ(input, output) << nameOf(type);
    EXPECT_EQ(input, self) << nameOf(type);
  }
}

TEST(Reduce, AcceptsNoElements) {
  ReduceTask task;
  task.type = DataType::float32;
  task.destinations = 2;
  for (uint8_t sources : {1, 2, 8}) {
    task.sources = sources;
    reduce(task);  // with null pointers: anything but returning is a crash
    reduceReference(task);
  }
}

}  // namespace
}  // namespace eccl::kernels
