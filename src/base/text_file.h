// Text files: small ones that users give, and those that are written for them.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace eccl {

inline constexpr size_t kLongestTextFile = 16 << 20;  // bytes

// In all of these, errors name the file and `what` it is to the user ("the cost model"). Any thread.

/// All of it. Errors: system; invalidArgument for what is longer than kLongestTextFile.
Result<std::string> readTextFile(const std::string& path, const char* what);
/// Its first `most` bytes, for those who have a limit of their own to tell of. Error: system.
Result<std::string> readBeginning(const std::string& path, const char* what, size_t most);

/// Beside the file and then in its place, so that nobody reads half of it. What is there and is no file, such
/// as /dev/stdout, is written to and stays. Error: system, with the reason.
Status writeTextFile(const std::string& path, std::string_view text, const char* what);

}  // namespace eccl
