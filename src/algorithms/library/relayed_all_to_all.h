// AlltoAll and AlltoAllv in two hops: the program that all_to_all_relay.cc and all_to_all_rail.cc share. They
// differ in who stands in a group.
#pragma once

#include "algorithms/builder/collective.h"
#include "algorithms/builder/groups.h"
#include "program/program.h"

namespace eccl::algorithms {

/// A block for place p of another group goes to the member of the own group at place p first, modulo the own
/// group's size, and from there across. A pure function.
Program relayedAllToAll(const CollectiveShape& shape, const Groups& groups, int rank, int channels);

}  // namespace eccl::algorithms
