// The selection table: made from the cost model, written as text, and read again. Threads: all functions are
// pure, apart from reading a file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/selection/candidates.h"

namespace eccl::algorithms {

/// For every collective that has several algorithms: what is the fastest up to which size, in memory of
/// ecclMemAlloc. `size` gives slots and their bytes. Takes some 5 ms for 2 ranks, 50 to
/// 90 ms for 8 and 0.15 to 0.5 s for 16 to 1000 (2 cores of an AMD EPYC, 2026).
Result<std::vector<SelectionRule>> rulesFor(const Placement& placement, const CostModel& model, CallSize size);

/// "ALGORITHM [CHANNELS [TILE]]".
std::string textOf(const Choice& choice);
/// Lines "COLLECTIVE BYTES ALGORITHM [CHANNELS [TILE]]", * for bytes without limit.
std::string textOf(std::span<const SelectionRule> rules);
/// Reads that. # begins a comment. Errors (invalidArgument) give `name`, what they call the text, and the line:
/// also of bytes that do not grow within a collective.
Result<std::vector<SelectionRule>> parseRules(std::string_view text, const std::string& name);
/// Reads a file. Errors name it; to be empty, or to end within a line, is one.
Result<std::vector<SelectionRule>> loadRules(const std::string& path);
/// `by` for the collectives that it names, `rules` for the rest.
std::vector<SelectionRule> overridden(std::vector<SelectionRule> rules, std::vector<SelectionRule> by);

}  // namespace eccl::algorithms
