// The scalar definition of a reduction. It goes block by block, one pass per source, so that each inner loop is
// simple enough for the compiler to vectorise: where Highway is absent this is the kernel.
#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "kernels/reduce_internal.h"

namespace eccl::kernels {
namespace {

constexpr size_t kBlock = 256;  // elements; the fp32 or 64-bit accumulators stay in the first-level cache

template <class E>
Accumulator<E> load(const std::byte* from) {
  E element;
  std::memcpy(&element, from, sizeof element);
  return widened(element);
}

/// Loops without a branch inside, which compilers vectorise.
template <class T>
void applyScale(const Scale& scale, T* values, size_t count) {
  const Scale its = scale;  // nothing that is written can be it
  if (its.kind == Scale::Kind::none) return;
  if (its.kind == Scale::Kind::multiply) {
    const T factor = factorOf<T>(its);
    for (size_t i = 0; i < count; ++i) values[i] = combine<RedOp::prod>(values[i], factor);
  } else {
    for (size_t i = 0; i < count; ++i) values[i] = scaled(values[i], its);
  }
}

/// A few elements of two sources, unscaled, as most are: without the memory that passes take.
template <class E, RedOp kOp>
void reduceFewFrom(const ReduceTask& task, size_t first) {
  const auto *a = static_cast<const std::byte*>(task.source[0]),
             *b = static_cast<const std::byte*>(task.source[1]);
  const auto reduceTo = [&, bytes = task.count * sizeof(E)](auto deliver) {
    for (size_t at = first * sizeof(E); at < bytes; at += sizeof(E)) {
      const E element = delivered<E>(combine<kOp>(load<E>(a + at), load<E>(b + at)));
      deliver(at, element);
    }
  };
  if (task.destinations == 1) {
    auto* const to = static_cast<std::byte*>(task.destination[0]);
    return reduceTo([&](size_t at, const E& element) { std::memcpy(to + at, &element, sizeof(E)); });
  }
  reduceTo([&](size_t at, const E& element) {
    for (int d = 0; d < task.destinations; ++d)
      std::memcpy(static_cast<std::byte*>(task.destination[d]) + at, &element, sizeof(E));
  });
}
template <class E, RedOp kOp>
void reduceFew(const ReduceTask& task) {
  reduceFewFrom<E, kOp>(task, 0);
}

/// So many elements are few: by instructions, against the best variant on a CPU with AVX2.
template <class E>
constexpr size_t kFew = kIsLowPrecision<E> ? 4 * sizeof(E) : std::min<size_t>(32, 128 / sizeof(E));

template <class E, RedOp kOp>
void reduceTyped(const ReduceTask& task, size_t first) {
  if (task.count - first <= kFew<E> && isUnscaledPair(task)) return reduceFewFrom<E, kOp>(task, first);
  using T = Accumulator<E>;
  T result[kBlock], next[kBlock];
  for (size_t begin = first; begin < task.count; begin += kBlock) {
    const size_t count = std::min(kBlock, task.count - begin);
    for (int s = 0; s < task.sources; ++s) {
      const std::byte* from = static_cast<const std::byte*>(task.source[s]) + begin * sizeof(E);
      if ((task.claimed >> s & 1) != 0) claim(from, count * sizeof(E));
      T* into = s == 0 ? result : next;
      for (size_t i = 0; i < count; ++i) into[i] = load<E>(from + i * sizeof(E));
      applyScale(task.pre[s], into, count);
      if (s == 0) continue;
      for (size_t i = 0; i < count; ++i) result[i] = combine<kOp>(result[i], next[i]);
    }
    applyScale(task.post, result, count);
    for (int d = 0; d < task.destinations; ++d) {
      std::byte* to = static_cast<std::byte*>(task.destination[d]) + begin * sizeof(E);
      for (size_t i = 0; i < count; ++i) {
        const E element = delivered<E>(result[i]);
        std::memcpy(to + i * sizeof(E), &element, sizeof(E));
      }
    }
  }
}

template <RedOp kOp>
void reduceByType(const ReduceTask& task, size_t first) {
  visitElement(task.type, [&]<class E>(std::type_identity<E>) { reduceTyped<E, kOp>(task, first); });
}

void copy(const ReduceTask& task) {
  const size_t bytes = task.count * sizeOf(task.type), piece = task.claimed != 0 ? kClaimBytes : bytes;
  const auto* const from = static_cast<const std::byte*>(task.source[0]);
  for (size_t at = 0; at < bytes; at += piece) {
    const size_t length = std::min(piece, bytes - at);
    if (task.claimed != 0) claim(from + at, length);
    for (int d = 0; d < task.destinations; ++d) {
      auto* const to = static_cast<std::byte*>(task.destination[d]);
      if (to != from) std::memcpy(to + at, from + at, length);
    }
  }
}

}  // namespace

void reduceReferenceFrom(const ReduceTask& task, size_t first) {
  switch (task.op) {
    case RedOp::prod:
      return reduceByType<RedOp::prod>(task, first);
    case RedOp::max:
      return reduceByType<RedOp::max>(task, first);
    case RedOp::min:
      return reduceByType<RedOp::min>(task, first);
    default:
      return reduceByType<RedOp::sum>(task, first);
  }
}

Reducer fewReducer(const ReduceTask& task) {
  Reducer found = nullptr;
  visitElement(task.type, [&]<class E>(std::type_identity<E>) {
    if (task.count > kFew<E>) return;
    if (task.op == RedOp::sum) found = &reduceFew<E, RedOp::sum>;
    if (task.op == RedOp::prod) found = &reduceFew<E, RedOp::prod>;
    if (task.op == RedOp::max) found = &reduceFew<E, RedOp::max>;
    if (task.op == RedOp::min) found = &reduceFew<E, RedOp::min>;
  });
  return found;
}

void reduceReference(const ReduceTask& task) {
  if (task.count == 0) return;  // the pointers may be null then
  if (isCopy(task)) return copy(task);
  reduceReferenceFrom(task, 0);
}

}  // namespace eccl::kernels
