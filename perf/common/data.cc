#include "common/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <tuple>

namespace eccl::perf {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio: neighbours land far apart

/// The finalizer of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t seedOf(uint64_t repetition, int source) {
  return mix((repetition + 1) * kStep + mix(static_cast<uint64_t>(source) + 1));
}

// The row and the rotation an element index picks, as an offset into a table.
struct Picker {
  uint64_t seed;
  uint64_t rowMask;
  uint64_t ranks;
  size_t operator()(size_t index) const {
    const uint64_t hash = mix(seed + index * kStep);
    return (hash & rowMask) * ranks + (((hash >> 32) * ranks) >> 32);
  }
};

template <class Word>
void fillHash(Word* to, size_t count, uint64_t seed, size_t index) {
  for (size_t i = 0; i < count; ++i)
    to[i] = static_cast<Word>(mix(seed + (index + i) * kStep) >> (64 - 8 * sizeof(Word)));
}

template <class Word>
int64_t differFromHash(const Word* found, size_t count, uint64_t seed, size_t index) {
  int64_t wrong = 0;
  for (size_t i = 0; i < count; ++i)
    wrong += found[i] != static_cast<Word>(mix(seed + (index + i) * kStep) >> (64 - 8 * sizeof(Word)));
  return wrong;
}

template <class Word>
void fillTable(Word* to, size_t count, const std::vector<uint64_t>& table, Picker pick, size_t index) {
  for (size_t i = 0; i < count; ++i) to[i] = static_cast<Word>(table[pick(index + i)]);
}

template <class Word, class Accepts>
int64_t differFromTable(const Word* found, size_t count, const std::vector<uint64_t>& table, Picker pick,
                        size_t index, Accepts accepts) {
  int64_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    const Word expected = static_cast<Word>(table[pick(index + i)]);
    if (found[i] != expected && !accepts(expected, found[i])) ++wrong;
  }
  return wrong;
}

// Calls `body` with a pointer of the unsigned type as wide as the elements; constness follows Byte.
template <class Byte, class Body>
auto withWords(int bytes, Byte* buffer, Body body) {
  auto as = [&]<class Word>(Word) {
    using Pointer = std::conditional_t<std::is_const_v<Byte>, const Word*, Word*>;
    return body(reinterpret_cast<Pointer>(buffer));
  };
  switch (bytes) {
    case 1:
      return as(uint8_t{});
    case 2:
      return as(uint16_t{});
    case 4:
      return as(uint32_t{});
    default:
      return as(uint64_t{});
  }
}

}  // namespace

Generator::Generator(const TypeInfo& type, Op op, int nranks)
    : type_(type), op_(op), nranks_(nranks), rows_(256), weights_(nranks, 0.0) {
  // The result table takes rows * n^2 steps to make; a thousand ranks must not wait for it.
  while (rows_ > 16 && static_cast<int64_t>(rows_) * nranks * nranks > (4 << 20)) rows_ /= 2;
  // Dividing by up to 64 = 2^6 only lowers exponents, which even f8e4m3 has room for at these magnitudes.
  const bool exactAverage = std::has_single_bit(static_cast<unsigned>(nranks)) && nranks <= 64;
  if (op == Op::prod)
    planProduct();
  else if (op == Op::min || op == Op::max)
    planOrder();
  else if (op == Op::avg && type.floating && !exactAverage)
    planInexactAverage();
  else
    planSum();
}

// All magnitudes together stay within exactUpTo, so no partial sum of any subset can round or overflow.
// Magnitudes and signs are irregular: with a pattern, two ranks could have the same data.
void Generator::planSum() {
  const double budget = op_ == Op::mulsum ? std::floor(type_.exactUpTo / 2) : type_.exactUpTo;
  const int active = static_cast<int>(std::min<double>(nranks_, budget));
  const uint64_t span = static_cast<uint64_t>(std::clamp(budget / active, 1.0, 8.0));
  double total = 0, sum = 0;
  for (int part = 0; part < active; ++part) {
    const uint64_t place = static_cast<uint64_t>(part);
    const double magnitude = static_cast<double>(1 + (place + place / span) % span);
    const bool negative = type_.isSigned && (part == 1 || (part > 1 && mix(place * kStep) % 3 == 0));
    weights_[part] = negative ? -magnitude : magnitude;
    total += magnitude;
    sum += weights_[part];
  }
  // A sum that is always zero would hide what it is made of.
  if (sum == 0) weights_[0] = -weights_[0];
  largestScale_ = std::max(1.0, std::floor(budget / total));
}

// Factors of two and three (halves and doubles for floating types) on as many ranks as the range allows,
// and one rank with an arbitrary value: every partial product is exact.
void Generator::planProduct() {
  firstPartVaries_ = true;
  std::fill(weights_.begin(), weights_.end(), 1.0);
  const int room = type_.floating ? 2 * (std::min(-type_.minExponent, type_.maxExponent) - 2) : 64;
  double product = 1;
  for (int part = 1; part < std::min(nranks_, room); ++part) {
    double factor = type_.floating ? (part % 2 != 0 ? 0.5 : 2.0) : (part % 2 != 0 ? 3.0 : 2.0);
    if (!type_.floating && product * factor > type_.exactUpTo) break;
    product *= factor;
    weights_[part] = type_.isSigned && part % 3 == 2 ? -factor : factor;
  }
  largestScale_ = type_.floating ? type_.exactUpTo : std::floor(type_.exactUpTo / product);
}

// Results are contributions themselves, so each may use the whole range.
void Generator::planOrder() {
  const int span = static_cast<int>(std::min<double>(nranks_, type_.exactUpTo));
  for (int part = 0; part < nranks_; ++part) {
    const double magnitude = 1 + part % span;
    weights_[part] = type_.isSigned && part % 2 != 0 ? -magnitude : magnitude;
  }
  largestScale_ = std::max(1.0, std::floor(type_.exactUpTo / span));
}

void Generator::planInexactAverage() {
  weights_[0] = 1;
  weights_[1] = 2;  // nranks is at least 3 here
  largestScale_ = type_.exactUpTo;
  tolerance_ = 2;
}

double Generator::rowScale(int row) const {
  const uint64_t hash = mix(static_cast<uint64_t>(row) * kStep + 12345);
  const double multiplier = 1 + static_cast<double>(hash % static_cast<uint64_t>(largestScale_));
  const bool negative = type_.isSigned && ((hash >> 62) & 1);
  // Integers stay unscaled in products, whose factors already use the range, and in averages, whose
  // quotients have low bits that a double could not hold beside high ones.
  const bool unscaled = !type_.floating && (firstPartVaries_ || op_ == Op::avg);
  const int scales = unscaled ? 1 : type_.scaleMax - type_.scaleMin + 1;
  double scale = std::ldexp(multiplier, (unscaled ? 0 : type_.scaleMin) + row % scales);
  // A significand of a product starts near 1, so that the other ranks' exponents have all the range.
  if (firstPartVaries_ && type_.floating) scale = std::ldexp(scale, -std::ilogb(scale));
  return negative ? -scale : scale;
}

double Generator::scaled(double scale, int part) const {
  return firstPartVaries_ && part != 0 ? weights_[part] : weights_[part] * scale;
}

double Generator::contribution(int row, int part) const {
  return scaled(rowScale(row), part);
}

double Generator::reduced(int row, int rotation) const {
  const double scale = rowScale(row);
  double result = 0;
  for (int rank = 0; rank < nranks_; ++rank) {
    const double value = scaled(scale, (rank + rotation) % nranks_);
    if (rank == 0)
      result = op_ == Op::mulsum ? value * scalar(0) : value;
    else if (op_ == Op::prod)
      result *= value;
    else if (op_ == Op::min)
      result = std::min(result, value);
    else if (op_ == Op::max)
      result = std::max(result, value);
    else
      result += op_ == Op::mulsum ? value * scalar(rank) : value;
  }
  if (op_ != Op::avg) return result;
  if (type_.floating) return result / nranks_;
  // Integers divide with truncation, in integer arithmetic: a double would round the quotient first.
  return type_.isSigned ? static_cast<double>(static_cast<int64_t>(result) / nranks_)
                        : static_cast<double>(static_cast<uint64_t>(result) / static_cast<uint64_t>(nranks_));
}

const std::vector<uint64_t>& Generator::tableOf(int rank) {
  std::vector<uint64_t>& table = inputs_[rank];
  if (table.empty()) {
    table.reserve(static_cast<size_t>(rows_) * nranks_);
    for (int row = 0; row < rows_; ++row)
      for (int rotation = 0; rotation < nranks_; ++rotation)
        table.push_back(encode(type_, contribution(row, (rank + rotation) % nranks_)));
  }
  return table;
}

const std::vector<uint64_t>& Generator::table(const Segment& segment) {
  return segment.kind == Segment::Kind::contribution ? tableOf(segment.source) : results();
}

// One for all threads: a thousand of them took minutes to make one each.
const std::vector<uint64_t>& Generator::results() {
  static std::mutex mutex;
  static auto* const made =
      new std::map<std::tuple<const TypeInfo*, Op, int>, std::weak_ptr<const std::vector<uint64_t>>>;
  if (results_ != nullptr) return *results_;
  std::lock_guard lock(mutex);
  auto& known = (*made)[{&type_, op_, nranks_}];
  results_ = known.lock();
  if (results_ == nullptr) {
    auto table = std::make_shared<std::vector<uint64_t>>();
    table->reserve(static_cast<size_t>(rows_) * nranks_);
    for (int row = 0; row < rows_; ++row)
      for (int rotation = 0; rotation < nranks_; ++rotation)
        table->push_back(encode(type_, reduced(row, rotation)));
    known = results_ = std::move(table);
  }
  return *results_;
}

void Generator::fill(void* buffer, const std::vector<Segment>& segments, uint64_t repetition) {
  const size_t bytes = type_.bytes;
  for (const Segment& segment : segments) {
    char* to = static_cast<char*>(buffer) + segment.offset * bytes;
    if (segment.kind == Segment::Kind::zero) {
      std::memset(to, 0, segment.count * bytes);
    } else if (segment.kind == Segment::Kind::copied) {
      const uint64_t seed = seedOf(repetition, segment.source);
      withWords(type_.bytes, to, [&](auto* words) { fillHash(words, segment.count, seed, segment.index); });
    } else {
      const Picker pick{seedOf(repetition, 0), static_cast<uint64_t>(rows_ - 1),
                        static_cast<uint64_t>(nranks_)};
      const std::vector<uint64_t>& values = table(segment);
      withWords(type_.bytes, to,
                [&](auto* words) { fillTable(words, segment.count, values, pick, segment.index); });
    }
  }
}

int64_t Generator::countWrong(const void* buffer, const std::vector<Segment>& segments, uint64_t repetition) {
  int64_t wrong = 0;
  const size_t bytes = type_.bytes;
  for (const Segment& segment : segments) {
    const char* at = static_cast<const char*>(buffer) + segment.offset * bytes;
    if (segment.kind == Segment::Kind::zero) {
      wrong += withWords(type_.bytes, at, [&](const auto* words) {
        return static_cast<int64_t>(
            std::count_if(words, words + segment.count, [](auto word) { return word != 0; }));
      });
    } else if (segment.kind == Segment::Kind::copied) {
      const uint64_t seed = seedOf(repetition, segment.source);
      wrong += withWords(type_.bytes, at, [&](const auto* words) {
        return differFromHash(words, segment.count, seed, segment.index);
      });
    } else {
      const Picker pick{seedOf(repetition, 0), static_cast<uint64_t>(rows_ - 1),
                        static_cast<uint64_t>(nranks_)};
      const std::vector<uint64_t>& values = table(segment);
      wrong += withWords(type_.bytes, at, [&](const auto* words) {
        return differFromTable(words, segment.count, values, pick, segment.index,
                               [this](uint64_t expected, uint64_t found) { return accepts(expected, found); });
      });
    }
  }
  return wrong;
}

// Bits that differ may still be the right value: the other zero, or within the tolerance.
bool Generator::accepts(uint64_t expected, uint64_t found) const {
  if (!type_.floating) return false;
  const double want = decode(type_, expected);
  const double have = decode(type_, found);
  // False for a NaN, which is never expected.
  return std::fabs(have - want) <= tolerance_ * ulp(type_, want);
}

}  // namespace eccl::perf
