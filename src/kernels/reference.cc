// The scalar definition of a reduction. It goes block by block, one pass per source, so that each inner loop is
// simple enough for the compiler to vectorise: where Highway is absent this is the kernel.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/low_precision.h"
#include "kernels/reduce.h"
#include "kernels/reduce_internal.h"

namespace eccl::kernels {
namespace {

constexpr size_t kBlock = 256;  // elements; the fp32 or 64-bit accumulators stay in the first-level cache

/// What elements of type E are combined in.
template <class E>
using Accumulator = std::conditional_t<kIsLowPrecision<E>, float, E>;

template <class E>
Accumulator<E> load(const std::byte* from) {
  E element;
  std::memcpy(&element, from, sizeof element);
  if constexpr (kIsLowPrecision<E>)
    return widen(element);
  else
    return element;
}

/// The element to deliver, with the one NaN.
template <class E>
E delivered(Accumulator<E> x) {
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
T extreme(T a, T b) {
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

template <RedOp kOp, class T>
T combine(T a, T b) {
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

template <class T>
void applyScale(const Scale& scale, T* values, size_t count) {
  if (scale.kind == Scale::Kind::none) return;
  if (scale.kind == Scale::Kind::multiply) {
    T factor;
    if constexpr (std::is_integral_v<T>)
      factor = static_cast<T>(scale.integer);
    else
      factor = static_cast<T>(scale.real);
    for (size_t i = 0; i < count; ++i) values[i] = combine<RedOp::prod>(values[i], factor);
  } else if constexpr (std::is_integral_v<T>) {
    const auto divisor = static_cast<std::common_type_t<T, int>>(scale.integer);  // no narrower than int32_t
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<T>(values[i] / divisor);
  } else {
    const T divisor = static_cast<T>(scale.integer);
    for (size_t i = 0; i < count; ++i) values[i] = values[i] / divisor;
  }
}

template <class E, RedOp kOp>
void reduceTyped(const ReduceTask& task, size_t first) {
  using T = Accumulator<E>;
  T result[kBlock], next[kBlock];
  for (size_t begin = first; begin < task.count; begin += kBlock) {
    const size_t count = std::min(kBlock, task.count - begin);
    for (int s = 0; s < task.sources; ++s) {
      const std::byte* from = static_cast<const std::byte*>(task.source[s]) + begin * sizeof(E);
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
  for (int d = 0; d < task.destinations; ++d) {
    if (task.destination[d] == task.source[0]) continue;
    std::memcpy(task.destination[d], task.source[0], task.count * sizeOf(task.type));
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

void reduceReference(const ReduceTask& task) {
  if (task.count == 0) return;  // the pointers may be null then
  if (isCopy(task)) return copy(task);
  reduceReferenceFrom(task, 0);
}

}  // namespace eccl::kernels
