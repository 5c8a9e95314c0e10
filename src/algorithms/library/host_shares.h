// AllReduce in which ranks of a host have shares of the data: what all_reduce_hierarchical.cc and
// all_reduce_doubling.cc do within a host. They differ in how the hosts add up a share.
#pragma once

#include <span>

#include "algorithms/builder/builder.h"
#include "algorithms/builder/groups.h"

namespace eccl::algorithms {

inline constexpr int kUp = 0, kDown = 1;  // tags: contributions and sums; results

/// Adds the lanes by which a rank gives each carrier of its host, those at places below `carriers`, its
/// contribution to part `place`, counted from `firstPart`, and gets the result.
void giveAndGetShares(Builder& b, const Groups& hosts, int rank, int channel, int carriers, int firstPart);

}  // namespace eccl::algorithms
