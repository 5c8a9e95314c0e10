// What the files of the reduction share: the SIMD variants, if this build has them, and the reference's tail.
// Private to reduce*.cc and reference.cc. Threads as reduce().
#pragma once

#include <cstddef>

#include "kernels/reduce.h"

namespace eccl::kernels {

/// reduceReference() for the elements from `first` on: the SIMD variants leave it what fills no vector.
void reduceReferenceFrom(const ReduceTask& task, size_t first);

/// Whether it combines two sources and scales nothing, as most do.
constexpr bool isUnscaledPair(const ReduceTask& task) {
  return task.sources == 2 && task.pre[0].kind == Scale::Kind::none && task.pre[1].kind == Scale::Kind::none &&
         task.post.kind == Scale::Kind::none;
}

/// reducerFor() of an unscaled pair of a few elements. Null: they are not few.
Reducer fewReducer(const ReduceTask& task);

/// The room that findSimdVariants() needs.
inline constexpr size_t kMaxSimdVariants = 3;

#if defined(ECCL_HAVE_HIGHWAY)
/// Writes to `list` the SIMD variants that this CPU can run, best first; returns how many.
size_t findSimdVariants(ReduceVariant* list);
#else
inline size_t findSimdVariants(ReduceVariant*) {
  return 0;
}
#endif

}  // namespace eccl::kernels
