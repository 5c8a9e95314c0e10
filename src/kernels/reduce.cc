#include "kernels/reduce.h"

#include "kernels/reduce_internal.h"

namespace eccl::kernels {
namespace {

struct Variants {
  ReduceVariant list[kMaxSimdVariants + 1];
  size_t count = 0;

  Variants() {
    count = findSimdVariants(list);
    list[count++] = {"reference", &reduceReference};
  }
};

}  // namespace

std::span<const ReduceVariant> reduceVariants() {
  static const Variants variants;
  return {variants.list, variants.count};
}

void reduce(const ReduceTask& task) {
  if (isShortCopy(task)) return copyShort(task);
  static const auto best = reduceVariants().front().run;
  best(task);
}

}  // namespace eccl::kernels
