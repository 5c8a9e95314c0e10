#include "kernels/reduce.h"

#include "kernels/reduce_internal.h"

namespace eccl::kernels {
namespace {

struct Variants {
  ReduceVariant list[kMaxSimdVariants + 1];
  size_t count = 0;

  Variants() {
    count = findSimdVariants(list);
    list[count++] = {"reference", &reduceReference, nullptr};
  }
};

}  // namespace

std::span<const ReduceVariant> reduceVariants() {
  static const Variants variants;
  return {variants.list, variants.count};
}

Reducer reducerFor(const ReduceTask& task) {
  if (!isUnscaledPair(task)) return nullptr;
  const auto sums = reduceVariants().front().sums;
  if (sums != nullptr && task.op == RedOp::sum && task.destinations == 1) {
    if (const Reducer sum = sums(task.type)) return sum;
  }
  return fewReducer(task);
}

namespace {

/// Whether finding the fastest way takes longer than it would spare: memcpy is as fast for a few elements, and
/// for one place, unless the copy is better made from the end.
bool isSimpleCopy(const ReduceTask& task) {
  if (!isCopy(task) || task.streamed != 0) return false;
  if (task.count <= 64) return true;
  if (task.destinations != 1) return false;
  return task.claimed != 0 ||
         !copiesBackwards(task.destination[0], task.source[0], task.count * sizeOf(task.type));
}

}  // namespace

void reduce(const ReduceTask& task) {
  if (isSimpleCopy(task)) return reduceReference(task);
  static const auto best = reduceVariants().front().run;
  best(task);
}

}  // namespace eccl::kernels
