// Text files: small ones that users give to the library, and those that it writes for them.
//
// Errors name the file and `what` it is to the user ("the cost model"). Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace eccl {

/// The limits of readTextFile() unless its caller sets others: a wrong path must not fill the memory or hang
/// a job.
inline constexpr size_t kLongestTextFile = 16 << 20;  // bytes
inline constexpr int kLongestReading = 60'000;        // milliseconds

/// Reads all of a file, or of what is no file, such as a pipe. Errors: system if it cannot be opened or read;
/// invalidArgument if it is longer than `most` bytes, or has not come to its end after `milliseconds`. Not
/// logged.
Result<std::string> readTextFile(const std::string& path, const char* what, size_t most = kLongestTextFile,
                                 int milliseconds = kLongestReading);

/// As readTextFile() with its limits, for files that are read line by line. A file of blanks alone, or whose
/// last line has no end, was not written to its end: an error (invalidArgument) that names the line.
Result<std::string> readWholeLines(const std::string& path, const char* what);

/// Writes a file beside the given one and moves it there, so that nobody reads half of it. A link stays, and
/// the file that it leads to is replaced. Something that is no file, such as /dev/stdout, is written to and
/// stays. Error: system, with the reason; a file that was there is then as before. Not logged.
Status writeTextFile(const std::string& path, std::string_view text, const char* what);

}  // namespace eccl
