// The selection table: made from the cost model, written down, read.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/cost_model.h"
#include "algorithms/select.h"

namespace eccl {

/// One algorithm and what it is expected to take.
struct Candidate {
  const Algorithm* algorithm = nullptr;
  double microseconds = 0;
};

/// All algorithms of a collective for blocks of `size`, the fastest first. Ranks beyond kPricedRanks are left
/// out, and what is cut into parts for each rank is shortened with them: crossings between algorithms that take
/// n rounds and such that take log n move in proportion. Errors: simulate()'s.
Result<std::vector<Candidate>> candidatesFor(Collective collective, CallSize size, const Placement& placement,
                                             const CostModel& model);
inline constexpr int kPricedRanks = 16;

/// For every collective that has several algorithms: which is the fastest up to which size, in memory of
/// ecclMemAlloc. `size` gives slots and their bytes. Takes 6 ms for 2 ranks and 240 ms for 16 and more that
/// share two cores (AMD EPYC, 2026).
Result<std::vector<SelectionRule>> rulesFor(const Placement& placement, const CostModel& model, CallSize size);

/// Lines "COLLECTIVE BYTES ALGORITHM", * for bytes without limit.
std::string textOf(std::span<const SelectionRule> rules);
/// Reads that. # begins a comment. Errors (invalidArgument) give `name`, what they call the text, and the line:
/// also of bytes that do not grow within a collective.
Result<std::vector<SelectionRule>> parseRules(std::string_view text, const std::string& name);

}  // namespace eccl
