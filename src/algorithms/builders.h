// The build functions, each in the file of its name.
#pragma once

#include "algorithms/collective.h"
#include "base/program.h"

namespace eccl {

Program allReduceRing(const CollectiveShape& shape, int rank, int channels);  // all_reduce_ring.cc

}  // namespace eccl
