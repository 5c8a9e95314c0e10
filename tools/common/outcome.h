// What a step of a tool ends with. The perf tools see the library only through its C API, so they do not share
// the library's Status; this is the same idea with the exit code of the process as the code.
#pragma once

#include <string>

#include "eccl/eccl.h"

namespace eccl::tools {

/// Exit codes of the tools; the numbers are nccl-tests'.
enum class Exit : int {
  ok = 0,
  internal = 1,     ///< a bug in the tool
  system = 2,       ///< the operating system refused something
  library = 3,      ///< a call of the library failed
  timeout = 4,      ///< -T passed
  unsupported = 5,  ///< an option that host ranks cannot honour
  usage = 6,        ///< an option or environment variable is wrong
  results = 7,      ///< wrong elements, or less bandwidth than asked for
};

std::string formatted(const char* format, ...) __attribute__((format(printf, 1, 2)));

class [[nodiscard]] Outcome {
 public:
  Outcome() = default;
  static Outcome error(Exit code, const char* format, ...) __attribute__((format(printf, 2, 3)));
  /// "<what>: <strerror(errnum)>".
  static Outcome fromErrno(int errnum, const std::string& what);
  /// Of a call into the library. `what` says the call and the rank; the library's own sentence follows it.
  static Outcome library(ecclResult_t result, ecclComm_t comm, const std::string& what);

  bool ok() const { return code_ == Exit::ok; }
  Exit code() const { return code_; }
  const std::string& text() const { return text_; }

 private:
  Exit code_ = Exit::ok;
  std::string text_;
};

#define TOOLS_TRY(expression)                                                            \
  do {                                                                                   \
    if (::eccl::tools::Outcome outcome_ = (expression); !outcome_.ok()) return outcome_; \
  } while (0)

}  // namespace eccl::tools
