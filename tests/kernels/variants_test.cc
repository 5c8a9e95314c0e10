// Every SIMD variant against the reference, bit by bit.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <tuple>

#include "kernels/reduce.h"
#include "support/elements.h"
#include "support/sanitizers.h"

namespace eccl::kernels {
namespace {

using elements::Bytes;
using elements::Random;

enum class Scaling { none, preOne, preAll, post, prePost, divide, preDivide };
constexpr Scaling kScalings[] = {Scaling::none,    Scaling::preOne, Scaling::preAll,   Scaling::post,
                                 Scaling::prePost, Scaling::divide, Scaling::preDivide};

Scale factor(DataType type, Random& random) {
  if (!isFloating(type)) return Scale::multiplyByInteger(static_cast<int64_t>(random()));
  std::uniform_real_distribution<double> any(-3, 3);
  return Scale::multiplyBy(any(random));
}

void applyScaling(Scaling scaling, ReduceTask& task, Random& random) {
  const auto divisor = [&] { return Scale::divideBy(static_cast<int32_t>(1 + random() % 300)); };
  const bool all = scaling == Scaling::preAll || scaling == Scaling::prePost;
  for (int s = 0; s < task.sources; ++s) {
    if (all) task.pre[s] = factor(task.type, random);
  }
  if (scaling == Scaling::preOne) task.pre[random() % task.sources] = factor(task.type, random);
  if (scaling == Scaling::preDivide) task.pre[random() % task.sources] = divisor();
  if (scaling == Scaling::post || scaling == Scaling::prePost) task.post = factor(task.type, random);
  if (scaling == Scaling::divide) task.post = divisor();
}

/// Bytes at an odd offset, or at a cache line, between guards that nobody may touch.
class Guarded {
 public:
  Guarded(const Bytes& content, Random& random) : size_(content.size()) {
    constexpr size_t kLine = 64;
    memory_.assign(kGuard + kLine + size_ + kGuard + kLine, 0xa5);
    const size_t toLine = kLine - reinterpret_cast<uintptr_t>(memory_.data() + kGuard) % kLine;
    offset_ = kGuard + (random() % 2 == 0 ? toLine : random() % kLine);
    std::copy(content.begin(), content.end(), data());
  }
  uint8_t* data() { return memory_.data() + offset_; }
  Bytes content() { return {data(), data() + size_}; }
  bool guardsIntact() const {
    const auto guard = [](uint8_t byte) { return byte == 0xa5; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<ptrdiff_t>(offset_), guard) &&
           std::all_of(memory_.begin() + static_cast<ptrdiff_t>(offset_ + size_), memory_.end(), guard);
  }

 private:
  static constexpr ptrdiff_t kGuard = 70;  // more than any vector
  size_t offset_, size_;
  Bytes memory_;
};

/// Runs `task` by `variant` on copies of `inputs` at random offsets, past the caches or not, into
/// `task.destinations` buffers of which the first is source `inPlace` unless that is negative. Returns the
/// result after having checked everything else.
Bytes run(const ReduceVariant& variant, ReduceTask task, const std::vector<Bytes>& inputs, int inPlace,
          Random& random) {
  std::vector<Guarded> buffers;
  for (const Bytes& input : inputs) buffers.emplace_back(input, random);
  const int first = inPlace >= 0 ? 1 : 0;
  for (int d = first; d < task.destinations; ++d) buffers.emplace_back(Bytes(inputs[0].size(), 0x5a), random);
  task.streamed = static_cast<uint8_t>(random());
  task.claimed = static_cast<uint8_t>(random());
  for (int s = 0; s < task.sources; ++s) task.source[s] = buffers[s].data();
  for (int d = first; d < task.destinations; ++d) {
    task.destination[d] = buffers[task.sources + d - first].data();
  }
  if (inPlace >= 0) task.destination[0] = buffers[inPlace].data();
  variant.run(task);

  const size_t resultAt = inPlace >= 0 ? inPlace : task.sources;
  const Bytes result = buffers[resultAt].content();
  for (size_t b = 0; b < buffers.size(); ++b) {
    EXPECT_TRUE(buffers[b].guardsIntact()) << "written outside of buffer " << b;
    const bool untouched = b < inputs.size() && b != resultAt;
    EXPECT_EQ(untouched ? inputs[b] : result, buffers[b].content()) << "buffer " << b;
  }
  return result;
}

/// So many bytes, and behind them none that may be touched.
class BeforeNothing {
 public:
  explicit BeforeNothing(size_t bytes)
      : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))),
        mapped_((bytes + page_ - 1) / page_ * page_ + page_),
        begin_(static_cast<uint8_t*>(
            mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        data_(begin_ + mapped_ - page_ - bytes) {
    mprotect(begin_ + mapped_ - page_, page_, PROT_NONE);
  }
  ~BeforeNothing() { munmap(begin_, mapped_); }
  BeforeNothing(const BeforeNothing&) = delete;
  BeforeNothing& operator=(const BeforeNothing&) = delete;
  uint8_t* data() const { return data_; }

 private:
  const size_t page_, mapped_;
  uint8_t *const begin_, *const data_;
};

std::string hex(const Bytes& bytes, size_t at, size_t size) {
  std::string text;
  for (size_t i = size; i-- > 0;) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", bytes[at + i]);
    text += digits;
  }
  return text;
}

::testing::AssertionResult sameBits(const ReduceTask& task, const std::vector<Bytes>& inputs,
                                    const Bytes& expected, const Bytes& actual) {
  const size_t size = sizeOf(task.type);
  for (size_t i = 0; i < task.count; ++i) {
    if (std::equal(&expected[i * size], &expected[i * size] + size, &actual[i * size])) continue;
    auto failure = ::testing::AssertionFailure() << "element " << i << " of " << task.count << ":";
    for (const Bytes& input : inputs) failure << " " << hex(input, i * size, size);
    return failure << " gave " << hex(actual, i * size, size) << ", not " << hex(expected, i * size, size);
  }
  return ::testing::AssertionSuccess();
}

std::span<const ReduceVariant> simdVariants() {
  return reduceVariants().first(reduceVariants().size() - 1);
}
const ReduceVariant& reference() {
  return reduceVariants().back();
}

/// All types of at most `width` bytes; none where there is no SIMD, for then there is nothing to compare.
std::vector<DataType> typesUpTo(size_t width) {
  std::vector<DataType> types;
  for (DataType type : elements::kAllTypes) {
    if (sizeOf(type) <= width && !simdVariants().empty()) types.push_back(type);
  }
  return types;
}

class Variants : public ::testing::TestWithParam<std::tuple<DataType, RedOp>> {
 protected:
  ReduceTask task(int sources, size_t count) const {
    ReduceTask task;
    task.type = std::get<0>(GetParam());
    task.op = std::get<1>(GetParam());
    task.sources = static_cast<uint8_t>(sources);
    task.destinations = 1;
    task.count = count;
    return task;
  }
  void compare(const ReduceTask& task, const std::vector<Bytes>& inputs, int inPlace) {
    const Bytes expected = run(reference(), task, inputs, inPlace, random_);
    for (const ReduceVariant& variant : simdVariants()) {
      ASSERT_TRUE(sameBits(task, inputs, expected, run(variant, task, inputs, inPlace, random_)))
          << variant.name;
    }
  }

  Random random_{1};
};

TEST_P(Variants, GiveTheReferencesBits) {
  const DataType type = std::get<0>(GetParam());
  for (int sources = 1; sources <= kMaxOperands; ++sources) {
    for (Scaling scaling : kScalings) {
      for (int repeat = 0; repeat < (kSanitized ? 3 : 6); ++repeat) {
        ReduceTask task = this->task(sources, repeat == 0 ? random_() % 5000 : random_() % 301);
        task.destinations = static_cast<uint8_t>(1 + random_() % kMaxOperands);
        applyScaling(scaling, task, random_);
        std::vector<Bytes> inputs;
        for (int s = 0; s < sources; ++s) {
          const bool bits = repeat % 2 == 0 || !isFloating(type);
          inputs.push_back(bits ? elements::randomBits(type, task.count, random_)
                                : elements::randomReals(type, task.count, 0.25, 4, random_));
          if (repeat % 3 == 0) elements::sprinkleSpecials(type, inputs.back(), random_);
        }
        const int inPlace = random_() % 2 == 0 ? static_cast<int>(random_() % sources) : -1;
        SCOPED_TRACE(::testing::Message() << sources << " sources, scaling " << static_cast<int>(scaling));
        ASSERT_NO_FATAL_FAILURE(compare(task, inputs, inPlace));
      }
    }
  }
}

/// What is chosen by task or by type, against the reference's bits of many more elements of which the task's
/// are the first: it makes few in another way than many.
class Reducers : public Variants {
 protected:
  static constexpr size_t kMany = 500;
  void compare(Reducer reducer, const ReduceTask& task, bool special) {
    ReduceTask many = task;
    many.count = kMany;
    std::vector<Bytes> inputs, all;
    for (int s = 0; s < 2; ++s) {
      all.push_back(elements::randomBits(task.type, kMany, random_));
      if (special) elements::sprinkleSpecials(task.type, all.back(), random_);
      inputs.emplace_back(all.back().begin(),
                          all.back().begin() + static_cast<ptrdiff_t>(task.count * sizeOf(task.type)));
    }
    const Bytes expected = run(reference(), many, all, -1, random_);
    const int inPlace = static_cast<int>(random_() % 3) - 1;
    ASSERT_TRUE(
        sameBits(task, inputs, expected, run({"reducer", reducer, nullptr}, task, inputs, inPlace, random_)));
  }
};

TEST_P(Reducers, OfTasksGiveTheReferencesBits) {
  int found = 0;
  for (int repeat = 0; repeat < 600; ++repeat) {
    const bool few = repeat % 2 == 0;
    ReduceTask task = this->task(2, few ? random_() % 40 : 40 + random_() % 400);
    task.destinations = static_cast<uint8_t>(few ? 1 + random_() % kMaxOperands : 1);
    const Reducer reducer = reducerFor(task);
    if (reducer == nullptr) continue;
    ++found;
    ASSERT_NO_FATAL_FAILURE(compare(reducer, task, repeat % 3 == 0));
  }
  EXPECT_GE(found, 10) << "an element or two are few";
}

TEST_P(Reducers, AreForUnscaledPairs) {
  ASSERT_NE(nullptr, reducerFor(task(2, 1)));
  EXPECT_EQ(nullptr, reducerFor(task(1, 1)));
  EXPECT_EQ(nullptr, reducerFor(task(3, 1)));
  for (Scaling scaling : {Scaling::preOne, Scaling::preAll, Scaling::post, Scaling::divide}) {
    ReduceTask scaled = task(2, 1);
    applyScaling(scaling, scaled, random_);
    EXPECT_EQ(nullptr, reducerFor(scaled)) << static_cast<int>(scaling);
  }
}

TEST_P(Reducers, OfEveryVariantGiveTheReferencesBits) {
  if (std::get<1>(GetParam()) != RedOp::sum) return;
  for (const ReduceVariant& variant : reduceVariants()) {
    if (variant.sums == nullptr) continue;
    const Reducer sum = variant.sums(std::get<0>(GetParam()));
    const bool low = isFloating(task(2, 1).type) && sizeOf(task(2, 1).type) < 4;
    ASSERT_EQ(low, sum == nullptr) << variant.name;
    for (int repeat = 0; repeat < 300 && sum != nullptr; ++repeat)
      ASSERT_NO_FATAL_FAILURE(compare(sum, task(2, random_() % kMany), repeat % 3 == 0)) << variant.name;
  }
}

class NarrowVariants : public Variants {};

/// Of the 8-bit types all pairs, of the 16-bit types all values with a few others: no code is left to chance.
TEST_P(NarrowVariants, GiveTheReferencesBitsForAllCodes) {
  const DataType type = std::get<0>(GetParam());
  constexpr size_t kCount = 65536;
  ReduceTask task = this->task(2, kCount);
  std::vector<Bytes> inputs(2);
  for (size_t i = 0; i < kCount; ++i) {
    if (sizeOf(type) == 1) {
      inputs[0].push_back(static_cast<uint8_t>(i));
      inputs[1].push_back(static_cast<uint8_t>(i >> 8));
    } else {
      inputs[0].insert(inputs[0].end(), {static_cast<uint8_t>(i), static_cast<uint8_t>(i >> 8)});
    }
  }
  for (double other : {0.0, -0.0, 1.0, -0.3333, 1e-4, 60000.0}) {
    if (sizeOf(type) == 2) {
      inputs[1].assign(2 * kCount, 0);
      for (size_t i = 0; i < kCount; ++i) elements::putReal(type, other, &inputs[1][2 * i]);
    }
    if (isFloating(type) && other != 0) task.post = Scale::multiplyBy(other);
    ASSERT_NO_FATAL_FAILURE(compare(task, inputs, -1)) << other;
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Variants);
INSTANTIATE_TEST_SUITE_P(All, Variants,
                         ::testing::Combine(::testing::ValuesIn(typesUpTo(8)),
                                            ::testing::ValuesIn(elements::kAllOps)),
                         elements::nameOfCase);
INSTANTIATE_TEST_SUITE_P(All, Reducers,
                         ::testing::Combine(::testing::ValuesIn(elements::kAllTypes),
                                            ::testing::ValuesIn(elements::kAllOps)),
                         elements::nameOfCase);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(NarrowVariants);
INSTANTIATE_TEST_SUITE_P(All, NarrowVariants,
                         ::testing::Combine(::testing::ValuesIn(typesUpTo(2)),
                                            ::testing::ValuesIn(elements::kAllOps)),
                         elements::nameOfCase);

/// Copies, also to two places, and sums, of sources that are all to be claimed.
constexpr std::pair<int, int> kClaiming[] = {{1, 1}, {1, 2}, {2, 1}, {3, 2}};

ReduceTask claimingTask(std::pair<int, int> operands, size_t bytes) {
  ReduceTask task;
  task.type = DataType::float32;
  task.op = RedOp::sum;
  task.sources = static_cast<uint8_t>(operands.first);
  task.destinations = static_cast<uint8_t>(operands.second);
  task.claimed = 0xff;
  task.count = bytes / 4;
  return task;
}

TEST(Claiming, StaysWithinTheSources) {
  for (const ReduceVariant& variant : reduceVariants()) {
    for (const auto& operands : kClaiming) {
      for (const size_t bytes : {4u, 60u, 64u, 68u, 2044u, 2048u, 2052u, 5000u, 8192u}) {
        ReduceTask task = claimingTask(operands, bytes);
        std::vector<std::unique_ptr<BeforeNothing>> memory;
        std::vector<Bytes> results(operands.second, Bytes(bytes));
        for (int s = 0; s < task.sources; ++s) {
          memory.push_back(std::make_unique<BeforeNothing>(bytes));
          for (size_t i = 0; i < task.count; ++i)
            elements::putReal(task.type, static_cast<double>(i), memory.back()->data() + 4 * i);
          task.source[s] = memory.back()->data();
        }
        for (int d = 0; d < task.destinations; ++d) task.destination[d] = results[d].data();
        variant.run(task);
        Bytes expected(bytes);
        for (size_t i = 0; i < task.count; ++i)
          elements::putReal(task.type, static_cast<double>(i) * task.sources, &expected[4 * i]);
        for (const Bytes& result : results)
          EXPECT_EQ(result, expected) << variant.name << " of " << operands.first << ", " << bytes << " bytes";
      }
    }
  }
}

TEST(ClaimingDeathTest, WritesToTheSources) {
  for (const ReduceVariant& variant : reduceVariants()) {
    for (const auto& operands : kClaiming) {
      constexpr size_t kBytes = 1 << 17;
      ReduceTask task = claimingTask(operands, kBytes);
      std::vector<Bytes> results(operands.second, Bytes(kBytes));
      for (int d = 0; d < task.destinations; ++d) task.destination[d] = results[d].data();
      void* const readable = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      for (int s = 0; s < task.sources; ++s) task.source[s] = readable;
      EXPECT_DEATH(variant.run(task), "") << variant.name << " of " << operands.first;
      task.claimed = 0;
      variant.run(task);
      munmap(readable, kBytes);
    }
  }
}

TEST(VariantList, EndsWithTheReference) {
  EXPECT_STREQ("reference", reduceVariants().back().name);
  for (const ReduceVariant& variant : reduceVariants()) EXPECT_NE(nullptr, variant.run) << variant.name;
}

TEST(VariantList, HasTheWidestVectors) {
  const std::string best = reduceVariants().front().name;
  if (best == "reference")
    GTEST_SKIP() << "no SIMD kernel was run: this build lacks Highway, or the CPU AVX2 or NEON";
#if defined(__x86_64__)
  if (best != "AVX3") GTEST_SKIP() << "the AVX-512 kernels were not run: this CPU offers " << best;
#endif
}

}  // namespace
TEST(VariantCopies, BeginAtTheEndWhereThatPays) {
  const auto copies = [](size_t ahead, size_t bytes) {
    return copiesBackwards(reinterpret_cast<void*>(4096 + ahead), reinterpret_cast<void*>(8192), bytes);
  };
  for (const size_t ahead : {size_t{0}, size_t{1}, size_t{2048}}) {
    EXPECT_TRUE(copies(ahead, kBackwardsFrom) && copies(ahead, kBackwardsTo));
    EXPECT_FALSE(copies(ahead, kBackwardsFrom - 1) || copies(ahead, kJustAheadTo + 1));
  }
  EXPECT_TRUE(copies(1, kJustAheadTo) && copies(15, kBackwardsTo + 1));
  EXPECT_FALSE(copies(0, kBackwardsTo + 1) || copies(16, kBackwardsTo + 1) || copies(2048, kJustAheadTo));
}

// Some of whose lengths are copied from the end: all bytes, and none beside them, wherever both lie.
TEST(VariantCopies, AreExactWhateverTheirLengthAndPlace) {
  std::mt19937 random(7);
  constexpr size_t kGuard = 128, kMost = kJustAheadTo + 1;
  std::vector<uint8_t> from(kMost + 2 * kGuard), to, expected;
  for (uint8_t& byte : from) byte = static_cast<uint8_t>(random());
  std::vector<size_t> lengths{1,    64, 2048, kBackwardsFrom - 1, kBackwardsTo, kBackwardsTo + 1, kJustAheadTo,
                              kMost};
  for (int more = 0; more < 300; ++more) lengths.push_back(kBackwardsFrom + static_cast<size_t>(more));
  for (const ReduceVariant& variant : reduceVariants()) {
    for (const size_t length : lengths) {
      const size_t source = random() % kGuard;
      to.assign(length + 4096 + kGuard, uint8_t{0xa5});
      size_t place = random() % kGuard;
      if (length > kBackwardsTo)  // ahead of it within a page, by less than copiesBackwards() looks for
        place = (reinterpret_cast<uintptr_t>(from.data()) + source + 1 + random() % 15 -
                 reinterpret_cast<uintptr_t>(to.data())) %
                4096;
      expected = to;
      std::copy_n(from.begin() + static_cast<ptrdiff_t>(source), length,
                  expected.begin() + static_cast<ptrdiff_t>(place));
      ReduceTask task;
      task.type = DataType::uint8;
      task.sources = task.destinations = 1;
      task.count = length;
      task.source[0] = from.data() + source;
      task.destination[0] = to.data() + place;
      variant.run(task);
      ASSERT_TRUE(to == expected) << variant.name << ", " << length << " bytes from " << source << " to "
                                  << place;
      std::fill(to.begin(), to.end(), uint8_t{0xa5});
      reduce(task);
      ASSERT_TRUE(to == expected) << length << " bytes";
      const std::vector<uint8_t> before = from;
      task.destination[0] = from.data() + source;  // it is there already
      variant.run(task);
      ASSERT_TRUE(from == before);
    }
  }
}

}  // namespace eccl::kernels
