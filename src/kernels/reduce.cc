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

/// Whether finding the fastest way takes longer than it would spare: memcpy is as fast for one place, and for a
/// few elements.
bool isSimpleCopy(const ReduceTask& task) {
  return isCopy(task) && task.streamed == 0 &&
         (task.count <= 64 || (task.destinations == 1 && !copiesBackwards(task.count * sizeOf(task.type))));
}

}  // namespace

void reduce(const ReduceTask& task) {
  if (isSimpleCopy(task)) return reduceReference(task);
  static const auto best = reduceVariants().front().run;
  best(task);
}

}  // namespace eccl::kernels
