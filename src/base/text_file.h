// Text files: small ones that users give, and those that are written for them.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace eccl {

inline constexpr size_t kLongestTextFile = 16 << 20;  // bytes
inline constexpr int kLongestReading = 60'000;        // milliseconds

// In all of these, errors name the file and `what` it is to the user ("the cost model"). Any thread.

/// All of it, also of what is no file, such as a pipe. Errors: system; invalidArgument for what is longer than
/// `most` bytes, or has not come to its end within that time.
Result<std::string> readTextFile(const std::string& path, const char* what, size_t most = kLongestTextFile,
                                 int milliseconds = kLongestReading);

/// The same of lines that are read one by one: a file without any, or whose last has no end, was not written to
/// its end, and is an error (invalidArgument) that names the line.
Result<std::string> readWholeLines(const std::string& path, const char* what);

/// Beside the file and then in its place, so that nobody reads half of it. What is there and is no file, such
/// as /dev/stdout, is written to and stays. Error: system, with the reason.
Status writeTextFile(const std::string& path, std::string_view text, const char* what);

}  // namespace eccl
