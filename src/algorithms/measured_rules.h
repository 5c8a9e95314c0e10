// The selection table where there is no cost model of the machine: what was the fastest on the machine that
// ECCL is measured on (perf/results).
#pragma once

#include <vector>

#include "algorithms/select.h"

namespace eccl {

/// `oneHost`: all ranks look at the same memory.
std::vector<SelectionRule> measuredRules(int ranks, bool oneHost);

}  // namespace eccl
