#include "tools/common/outcome.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace eccl::tools {
namespace {
std::string formattedList(const char* format, va_list arguments) {
  va_list copy;
  va_copy(copy, arguments);
  const int length = std::vsnprintf(nullptr, 0, format, copy);
  va_end(copy);
  std::string text(length < 0 ? 0 : static_cast<size_t>(length), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}
}  // namespace

std::string formatted(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = formattedList(format, arguments);
  va_end(arguments);
  return text;
}

Outcome Outcome::error(Exit code, const char* format, ...) {
  Outcome outcome;
  outcome.code_ = code;
  va_list arguments;
  va_start(arguments, format);
  outcome.text_ = formattedList(format, arguments);
  va_end(arguments);
  return outcome;
}

Outcome Outcome::fromErrno(int errnum, const std::string& what) {
  return error(Exit::system, "%s: %s", what.c_str(), std::strerror(errnum));
}

Outcome Outcome::library(ecclResult_t result, ecclComm_t comm, const std::string& what) {
  if (result == ecclSuccess) return {};
  const char* sentence = ecclGetLastError(comm);
  return error(Exit::library, "%s: '%s / %s'", what.c_str(), ecclGetErrorString(result),
               sentence != nullptr ? sentence : "");
}

}  // namespace eccl::tools
