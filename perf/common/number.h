// Numbers as the command line writes them and as the table prints them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace eccl::perf {

/// "8", "1.5K", "32M", "2G", "64MiB": binary units. False if `text` is anything else, negative or too large.
bool parseSize(const char* text, size_t* bytes);
/// A whole number in C's notation (0x.. too), between min and max. False otherwise.
bool parseInteger(const char* text, long long min, long long max, long long* value);
/// As above, 0b.. too: what NCCL_TESTS_SPLIT takes.
bool parseMask(const char* text, long long* value);

/// `value` right-aligned in `width` columns: two decimals if they fit, else one, else none, else an exponent.
std::string fitted(double value, int width);
/// "1.50 GB", "37.3 MB", "12 B": three digits at most, binary units.
std::string memoryText(int64_t bytes);

}  // namespace eccl::perf
