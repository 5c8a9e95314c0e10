// The generators must give data whose answers are exact, and the checker must see one wrong element.
#include "common/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace eccl::perf {
namespace {

constexpr size_t kCount = 600;
using Kind = Segment::Kind;

std::string name(const TypeInfo& type, int op, int nranks) {
  return std::string(type.name) + " " + kOpNames[op] + " " + std::to_string(nranks);
}

uint64_t elementAt(const std::vector<char>& buffer, const TypeInfo& type, size_t i) {
  uint64_t bits = 0;
  std::memcpy(&bits, buffer.data() + i * type.bytes, type.bytes);
  return bits;
}

// Every bit pattern of the small floating types that is a number survives, and rounding goes to the nearest.
TEST(Types, SmallFloatsRoundTripAndRound) {
  for (const TypeInfo& type : kTypeInfos) {
    if (!type.floating || type.bytes > 2) continue;
    const uint64_t patterns = uint64_t{1} << (8 * type.bytes);
    std::vector<double> numbers;
    for (uint64_t bits = 0; bits < patterns; ++bits) {
      const double value = decode(type, bits);
      if (std::isnan(value)) continue;
      if (std::isfinite(value)) {
        EXPECT_EQ(encode(type, value), bits) << type.name << " " << bits;
        numbers.push_back(value);
      }
    }
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 1; i < numbers.size(); ++i) {
      const double low = numbers[i - 1], high = numbers[i];
      if (low == high) continue;  // the two zeros
      EXPECT_EQ(decode(type, encode(type, low + (high - low) * 0.49)), low) << type.name;
      EXPECT_EQ(decode(type, encode(type, low + (high - low) * 0.51)), high) << type.name;
      EXPECT_EQ(encode(type, (low + high) / 2) & 1, 0u)
          << type.name << ": a tie goes to the even neighbour of " << low;
    }
  }
}

TEST(Types, KnownPatterns) {
  const TypeInfo& half = kTypeInfos[ecclFloat16];
  EXPECT_EQ(encode(half, 1.0), 0x3c00u);
  EXPECT_EQ(encode(half, 65504), 0x7bffu);
  EXPECT_EQ(encode(half, 1e6), 0x7c00u);
  EXPECT_EQ(encode(half, -0.0), 0x8000u);
  EXPECT_EQ(encode(kTypeInfos[ecclBfloat16], 1.0), 0x3f80u);
  EXPECT_EQ(encode(kTypeInfos[ecclFloat8e4m3], 448), 0x7eu);
  EXPECT_EQ(encode(kTypeInfos[ecclFloat8e4m3], 1e6), 0x7eu);  // fp8 saturates
  EXPECT_EQ(encode(kTypeInfos[ecclFloat8e5m2], 57344), 0x7bu);
  EXPECT_EQ(encode(kTypeInfos[ecclFloat8e5m2], 1e6), 0x7bu);
  EXPECT_TRUE(std::isnan(decode(kTypeInfos[ecclFloat8e4m3], 0x7f)));
  EXPECT_TRUE(std::isinf(decode(kTypeInfos[ecclFloat8e5m2], 0x7c)));
  EXPECT_EQ(ulp(half, 1.5), std::ldexp(1, -10));
  EXPECT_EQ(ulp(half, 0), std::ldexp(1, -24));
}

// One rounding of the type after every step, in several orders: the result must be the expected one, always,
// except for the averages that state a tolerance.
TEST(Generator, EveryOrderOfReductionGivesTheExpectedResult) {
  std::mt19937 random(1);
  for (const TypeInfo& type : kTypeInfos) {
    for (int op = 0; op < kOps; ++op) {
      for (int nranks : {1, 2, 3, 4, 5, 7, 8, 16, 24, 64}) {
        const Generator g(type, static_cast<Op>(op), nranks);
        const auto rounded = [&](double value) {
          const double result = decode(type, encode(type, value));
          if (g.tolerance() == 0) { EXPECT_EQ(result, value) << name(type, op, nranks); }
          return result;
        };
        for (int trial = 0; trial < 200; ++trial) {
          const int row = static_cast<int>(random() % g.rows()), rotation = static_cast<int>(random() % nranks);
          std::vector<double> values;
          for (int rank = 0; rank < nranks; ++rank) {
            double value = rounded(g.contribution(row, (rank + rotation) % nranks));
            if (static_cast<Op>(op) == Op::mulsum) value = rounded(value * Generator::scalar(rank));
            if (static_cast<Op>(op) == Op::avg && type.floating) value = rounded(value / nranks);
            values.push_back(value);
          }
          std::shuffle(values.begin(), values.end(), random);
          double result = values[0];
          for (int i = 1; i < nranks; ++i) {
            if (static_cast<Op>(op) == Op::prod)
              result *= values[i];
            else if (static_cast<Op>(op) == Op::min)
              result = std::min(result, values[i]);
            else if (static_cast<Op>(op) == Op::max)
              result = std::max(result, values[i]);
            else
              result += values[i];
            result = rounded(result);
          }
          if (static_cast<Op>(op) == Op::avg && !type.floating) result = std::trunc(result / nranks);
          const double expected = g.reduced(row, rotation);
          EXPECT_LE(std::fabs(result - expected), g.tolerance() * ulp(type, expected))
              << name(type, op, nranks);
        }
      }
    }
  }
}

// A rank whose data never matters, or that could be any other rank, would hide errors.
TEST(Generator, EveryRankMatters) {
  for (const TypeInfo& type : kTypeInfos) {
    for (int nranks : {2, 3, 4, 5, 6, 7, 8, 9, 12, 33}) {
      for (Op op : {Op::sum, Op::mulsum, Op::min, Op::prod}) {
        Generator g(type, op, nranks);
        std::vector<char> first(kCount * type.bytes), second(first);
        g.fill(first.data(), {{Kind::contribution, 0, kCount, 0}}, 1);
        for (int rank = 1; rank < nranks; ++rank) {
          g.fill(second.data(), {{Kind::contribution, 0, kCount, rank}}, 1);
          EXPECT_TRUE(first != second) << name(type, static_cast<int>(op), nranks) << " rank " << rank;
          int zeros = 0;
          for (size_t i = 0; i < kCount; ++i) zeros += decode(type, elementAt(second, type, i)) == 0;
          EXPECT_LT(zeros, static_cast<int>(kCount * 9 / 10))
              << name(type, static_cast<int>(op), nranks) << " rank " << rank;
        }
      }
    }
  }
}

// A thousand ranks that are threads of one process would take minutes to make one each.
TEST(Generator, ThreadsOfAProcessHaveOneTableOfResults) {
  constexpr int kThreads = 8, kRanks = 64;
  std::vector<std::unique_ptr<Generator>> generators;
  for (int i = 0; i < kThreads; ++i)
    generators.push_back(std::make_unique<Generator>(kTypeInfos[ecclFloat32], Op::sum, kRanks));
  const std::vector<uint64_t>* tables[kThreads] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { tables[i] = &generators[i]->results(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(tables[0]->size(), static_cast<size_t>(generators[0]->rows()) * kRanks);
  for (int i = 1; i < kThreads; ++i) EXPECT_EQ(tables[i], tables[0]);

  Generator otherType(kTypeInfos[ecclFloat64], Op::sum, kRanks),
      otherOp(kTypeInfos[ecclFloat32], Op::max, kRanks);
  Generator otherRanks(kTypeInfos[ecclFloat32], Op::sum, kRanks / 2);
  for (Generator* other : {&otherType, &otherOp, &otherRanks}) EXPECT_NE(&other->results(), tables[0]);
}

TEST(Generator, RepetitionsSourcesAndPlacesDiffer) {
  Generator g(kTypeInfos[ecclFloat32], Op::sum, 4);
  std::vector<char> a(kCount * 4), b(a);
  for (const Kind kind : {Kind::copied, Kind::contribution, Kind::reduced}) {
    const std::vector<Segment> segment = {{kind, 0, kCount, 1, 0}};
    g.fill(a.data(), segment, 1);
    EXPECT_EQ(g.countWrong(a.data(), segment, 1), 0);
    EXPECT_GT(g.countWrong(a.data(), segment, 2), static_cast<int64_t>(kCount / 2)) << "another repetition";
    EXPECT_GT(g.countWrong(a.data(), {{kind, 0, kCount, 1, 1}}, 1), static_cast<int64_t>(kCount / 2))
        << "off by one";
  }
  EXPECT_GT(g.countWrong(a.data(), {{Kind::copied, 0, kCount, 2}}, 1), static_cast<int64_t>(kCount * 9 / 10));
}

// In every type and operator, every single element, the smallest and the largest change of its bits.
TEST(Checker, NoticesOneCorruptedElement) {
  for (const TypeInfo& type : kTypeInfos) {
    for (int op = 0; op < kOps; ++op) {
      for (int nranks : {1, 3, 8}) {
        Generator g(type, static_cast<Op>(op), nranks);
        std::vector<char> buffer(kCount * type.bytes);
        for (const Kind kind : {Kind::reduced, Kind::copied}) {
          const std::vector<Segment> expected = {{kind, 0, kCount, 0, 0}};
          g.fill(buffer.data(), expected, 7);
          ASSERT_EQ(g.countWrong(buffer.data(), expected, 7), 0) << name(type, op, nranks);
          for (size_t i = 0; i < kCount; i += 13) {
            char* element = buffer.data() + i * type.bytes;
            const bool tolerated = kind == Kind::reduced && g.tolerance() > 0;
            // In f8e5m2, bit 3 is the lowest whose change is always more than two ulps.
            const int lowest = tolerated ? 3 : 0;
            element[0] ^= static_cast<char>(1 << lowest);
            EXPECT_EQ(g.countWrong(buffer.data(), expected, 7), 1) << name(type, op, nranks) << " at " << i;
            element[0] ^= static_cast<char>(1 << lowest);
            element[type.bytes - 1] ^= 0x40;  // the top of an exponent, or a large bit
            EXPECT_EQ(g.countWrong(buffer.data(), expected, 7), 1) << name(type, op, nranks) << " at " << i;
            element[type.bytes - 1] ^= 0x40;
          }
        }
      }
    }
  }
}

TEST(Checker, CountsEachWrongElementOnce) {
  Generator g(kTypeInfos[ecclInt32], Op::sum, 2);
  std::vector<char> buffer(kCount * 4);
  const std::vector<Segment> expected = {
      {Kind::zero, 0, 100}, {Kind::copied, 100, 200, 1, 5}, {Kind::reduced, 300, 300, 0, 9}};
  g.fill(buffer.data(), expected, 1);
  for (size_t i : {0u, 99u, 100u, 299u, 300u, 599u}) buffer[i * 4 + 1] ^= 1;
  EXPECT_EQ(g.countWrong(buffer.data(), expected, 1), 6);
}

TEST(Checker, NanAndTheOtherZero) {
  const TypeInfo& type = kTypeInfos[ecclFloat32];
  Generator g(type, Op::sum, 2);
  std::vector<char> buffer(kCount * 4);
  const std::vector<Segment> expected = {{Kind::reduced, 0, kCount}};
  g.fill(buffer.data(), expected, 1);
  const uint32_t nan = 0x7fc00000;
  std::memcpy(buffer.data(), &nan, 4);
  EXPECT_EQ(g.countWrong(buffer.data(), expected, 1), 1);
}

TEST(Checker, ToleranceIsTwoUlpsAndNoMore) {
  const TypeInfo& type = kTypeInfos[ecclFloat32];
  Generator g(type, Op::avg, 3);
  EXPECT_EQ(g.tolerance(), 2);
  EXPECT_EQ(Generator(type, Op::avg, 4).tolerance(), 0);
  EXPECT_EQ(Generator(kTypeInfos[ecclInt32], Op::avg, 3).tolerance(), 0);
  std::vector<char> buffer(kCount * 4);
  const std::vector<Segment> expected = {{Kind::reduced, 0, kCount}};
  for (const auto& [off, wrong] : {std::pair<int, int64_t>{2, 0}, {3, kCount}}) {
    g.fill(buffer.data(), expected, 1);
    for (size_t i = 0; i < kCount; ++i) {
      uint32_t bits;
      std::memcpy(&bits, buffer.data() + i * 4, 4);
      // Towards zero the ulp of the next binade is half as large; stay inside one.
      const bool roomAbove = ((bits + off) >> 23) == (bits >> 23);
      bits += roomAbove ? off : -off;
      std::memcpy(buffer.data() + i * 4, &bits, 4);
    }
    EXPECT_EQ(g.countWrong(buffer.data(), expected, 1), wrong) << off << " ulps";
  }
}

}  // namespace
}  // namespace eccl::perf
