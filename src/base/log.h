// Logging to stderr, or to the file that ECCL_DEBUG_FILE names. ECCL_DEBUG=NONE|WARN|INFO|TRACE sets the
// level, in upper or lower case; WARN when unset or unknown. Where one of them is not set, NCCL_DEBUG and
// NCCL_DEBUG_FILE count. In the name of the file %h is the host and %p the process id. The file is appended
// to; if it cannot be opened, the log goes to stderr.
//
// The log is configured from the environment alone, before settings are read, and only once: when the first
// line is asked for.
//
// Threads: any. Failures to write are ignored: a log that is full must not end a job.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace eccl {

/// Each level includes those before it. warn: something failed or will. info: what a user asks about when a
/// job is slow or starts badly. trace: single events.
enum class LogLevel : uint8_t { none, warn, info, trace };

/// The most that is written, by the environment when it is first asked for. Any thread.
LogLevel logLevel();
/// Whether lines of this level are written. Cheap: ask before making an expensive line.
inline bool logEnabled(LogLevel level) {
  static const LogLevel enabled = logLevel();
  return level <= enabled && level != LogLevel::none;
}
/// Writes one line, "eccl <level> <host>:<pid>:<tid> <text>", by one write(2), so that lines of several
/// threads do not mix. Characters that a terminal would act on are shown as codes (base/printable.h); line
/// breaks and tabs stay. Nothing happens where the level is not written. Throws bad_alloc only.
void log(LogLevel level, const char* fmt, ...) __attribute__((format(printf, 2, 3)));

/// Logs an error as a warning and returns it. Call it where a failure is identified first, so that each
/// failure is logged once. Success is not logged.
Status logged(Status status);
template <class T>
Result<T> logged(Result<T> result) {
  logged(result.status()).ignore();
  return result;
}

/// The three levels, as printf. The arguments of INFO and TRACE are evaluated only if their level is written.
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
