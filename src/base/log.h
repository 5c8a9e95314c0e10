// Logging to stderr or to ECCL_DEBUG_FILE. Levels: ECCL_DEBUG=NONE|WARN|INFO|TRACE (WARN when unset).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace eccl {

enum class LogLevel : uint8_t { none, warn, info, trace };

bool logEnabled(LogLevel level);
/// One line: "eccl <level> <host>:<pid>:<tid> <text>". Safe from any thread; one write(2) per line.
void log(LogLevel level, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

/// Logs an error as a warning and hands it on: for where a failure is identified, so that it is logged once.
/// Success passes unseen.
Status logged(Status status);
template <class T>
Result<T> logged(Result<T> result) {
  logged(result.status()).ignore();
  return result;
}

#define ECCL_WARN(...) ::eccl::log(::eccl::LogLevel::warn, __VA_ARGS__)
#define ECCL_INFO(...)                                                                                \
  do {                                                                                                \
    if (::eccl::logEnabled(::eccl::LogLevel::info)) ::eccl::log(::eccl::LogLevel::info, __VA_ARGS__); \
  } while (0)
#define ECCL_TRACE(...)                                                                                 \
  do {                                                                                                  \
    if (::eccl::logEnabled(::eccl::LogLevel::trace)) ::eccl::log(::eccl::LogLevel::trace, __VA_ARGS__); \
  } while (0)

}  // namespace eccl
