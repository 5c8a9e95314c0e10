// Numbers as the table prints them.
#pragma once

#include <cstdint>
#include <string>

namespace eccl::perf {

/// `value` right-aligned in `width` columns: two decimals if they fit, else one, else none, else an exponent.
std::string fitted(double value, int width);
/// The same, but what is less than a hundredth has an exponent: it is not shown as nothing.
std::string fittedRatio(double value, int width);
/// "1.50 GB", "37.3 MB", "12 B": three digits at most, binary units.
std::string memoryText(int64_t bytes);

}  // namespace eccl::perf
