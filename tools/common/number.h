// Numbers as the command line and the environment write them.
#pragma once

#include <cstddef>

namespace eccl::tools {

/// "8", "1.5K", "32M", "2G", "64MiB": binary units. False if `text` is anything else, negative or too large.
bool parseSize(const char* text, size_t* bytes);
/// A whole number in C's notation (0x.. too), between min and max. False otherwise.
bool parseInteger(const char* text, long long min, long long max, long long* value);
/// As above, not negative, and 0b.. too: what NCCL_TESTS_SPLIT takes.
bool parseMask(const char* text, long long* value);

}  // namespace eccl::tools
