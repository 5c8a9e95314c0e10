// The log: one write(2) per line, so that lines of threads and processes that share a file do not mix.
#include "base/log.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdlib>
#include <string>

#include "base/printable.h"

namespace eccl {
namespace {

const char* environment(const char* eccl, const char* nccl) {
  const char* value = std::getenv(eccl);
  return value != nullptr ? value : std::getenv(nccl);
}

LogLevel levelFromEnvironment() {
  const char* text = environment("ECCL_DEBUG", "NCCL_DEBUG");
  if (text == nullptr) return LogLevel::warn;
  if (strcasecmp(text, "NONE") == 0) return LogLevel::none;
  if (strcasecmp(text, "INFO") == 0) return LogLevel::info;
  if (strcasecmp(text, "TRACE") == 0) return LogLevel::trace;
  return LogLevel::warn;  // VERSION, WARN and ABORT included: all of them still want warnings
}

int openSink() {
  const char* path = environment("ECCL_DEBUG_FILE", "NCCL_DEBUG_FILE");
  if (path == nullptr) return STDERR_FILENO;
  std::string name;  // %h host, %p pid, as NCCL spells them
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  for (const char* c = path; *c != '\0'; ++c) {
    if (*c == '%' && c[1] == 'h') {
      name += host;
      ++c;
    } else if (*c == '%' && c[1] == 'p') {
      name += std::to_string(getpid());
      ++c;
    } else
      name += *c;
  }
  int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return fd >= 0 ? fd : STDERR_FILENO;
}

}  // namespace

LogLevel logLevel() {
  static const LogLevel enabled = levelFromEnvironment();
  return enabled;
}

void log(LogLevel level, const char* fmt, ...) {
  if (!logEnabled(level)) return;
  static const int sink = openSink();
  static constexpr const char* names[] = {"", "WARN", "INFO", "TRACE"};
  char host[64] = "unknown";
  gethostname(host, sizeof host - 1);
  std::string line =
      format("eccl %s %s:%d:%ld ", names[static_cast<int>(level)], host, getpid(), syscall(SYS_gettid));
  va_list args;
  va_start(args, fmt);
  line += printable(formatList(fmt, args), "\n\t");
  va_end(args);
  line += '\n';
  // A log that cannot be written must not end the job that wanted to write it.
  [[maybe_unused]] ssize_t written = write(sink, line.data(), line.size());
}

Status logged(Status status) {
  if (!status.ok()) ECCL_WARN("%s", status.message().c_str());
  return status;
}

}  // namespace eccl
