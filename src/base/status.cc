#include "base/status.h"

#include <cstdio>
#include <cstring>

#include "base/printable.h"

namespace eccl {

std::string formatList(const char* fmt, va_list args) {
  va_list copy;
  va_copy(copy, args);
  int length = std::vsnprintf(nullptr, 0, fmt, copy);
  va_end(copy);
  std::string text(length < 0 ? 0 : static_cast<size_t>(length), '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, fmt, args);
  return text;
}

std::string format(const char* fmt, ...) {
  va_list args;
  va_start(args, fmt);
  std::string text = formatList(fmt, args);
  va_end(args);
  return text;
}

/// What users and peers name in messages must not reach terminals as it is.
static std::string sentence(const char* fmt, va_list args) {
  return printable(formatList(fmt, args), "\n\t");
}

Status Status::error(Code code, const char* fmt, ...) {
  Status status;
  status.code_ = code;
  va_list args;
  va_start(args, fmt);
  status.message_ = sentence(fmt, args);
  va_end(args);
  return status;
}

Status Status::fromErrno(int errnum, const char* fmt, ...) {
  Status status;
  status.code_ = Code::system;
  va_list args;
  va_start(args, fmt);
  status.message_ = sentence(fmt, args) + ": " + std::strerror(errnum);
  va_end(args);
  return status;
}

}  // namespace eccl
