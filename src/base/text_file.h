// Small files that users give.
#pragma once

#include <string>

#include "base/status.h"

namespace eccl {

inline constexpr size_t kLongestTextFile = 16 << 20;  // bytes

/// All of it. Errors name the file, and `what` it is to the user ("the cost model").
Result<std::string> readTextFile(const std::string& path, const char* what);

}  // namespace eccl
