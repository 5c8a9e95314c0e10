// Status without exceptions: where there is no memory for a sentence, the code alone is passed on.
#include "base/status.h"

#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>

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

namespace {

/// Printable, as what users and peers name in messages must not reach terminals as it is. Null if there is no
/// memory: the code has to do.
std::shared_ptr<const std::string> sentence(const char* fmt, va_list args, const char* cause) noexcept {
  try {
    std::string text = printable(formatList(fmt, args), "\n\t");
    if (cause != nullptr) text.append(": ").append(cause);
    return std::make_shared<const std::string>(std::move(text));
  } catch (const std::bad_alloc&) { return nullptr; }
}

}  // namespace

Status Status::error(Code code, const char* fmt, ...) noexcept {
  Status status;
  status.code_ = code;
  va_list args;
  va_start(args, fmt);
  status.message_ = sentence(fmt, args, nullptr);
  va_end(args);
  return status;
}

Status Status::fromErrno(int errnum, const char* fmt, ...) noexcept {
  Status status;
  status.code_ = Code::system;
  va_list args;
  va_start(args, fmt);
  status.message_ = sentence(fmt, args, std::strerror(errnum));
  va_end(args);
  return status;
}

const std::string& Status::message() const noexcept {
  // Never destroyed: errors are read while a process ends.
  static const auto* const none = new std::string;
  static const auto* const noMemory = new std::string("out of memory, also for a message");
  return message_ != nullptr ? *message_ : ok() ? *none : *noMemory;
}

Status statusOfException(const char* where) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status::error(Code::system, "%s: out of memory", where);
  } catch (const std::length_error&) {  // by a container that was asked for more than there can be
    return Status::error(Code::system, "%s: out of memory", where);
  } catch (const std::system_error& error) {
    return Status::fromErrno(error.code().value(), "%s", where);
  } catch (const std::exception& error) {
    return Status::error(Code::internal, "%s: %s; this is a defect of ECCL, please report it", where,
                         error.what());
  } catch (...) {
    return Status::error(Code::internal, "%s: an unknown exception; this is a defect of ECCL, please report it",
                         where);
  }
}

}  // namespace eccl
