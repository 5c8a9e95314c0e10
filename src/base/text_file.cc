// Reading with limits of size and time, as the path may name a pipe or a device; writing by a file beside the
// target that is then moved.
#include "base/text_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>

namespace eccl {
namespace {

namespace fs = std::filesystem;

/// `create`: what open() is to do beside. 0, or errno.
int write(const std::string& path, std::string_view text, int create) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | create, 0666);
  if (fd < 0) return errno;
  int failure = 0;
  while (!text.empty() && failure == 0) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put >= 0)
      text.remove_prefix(static_cast<size_t>(put));
    else if (errno != EINTR)
      failure = errno;
  }
  if (close(fd) != 0 && failure == 0) failure = errno;  // a full disk may show only now
  return failure;
}

/// A name that nobody else writes to.
std::string beside(const std::string& path) {
  uint64_t random = 0;  // if it stays so, O_EXCL tells
  if (getrandom(&random, sizeof random, 0) < 0) random = 0;
  return path + format(".%016llx", static_cast<unsigned long long>(random));
}

}  // namespace

Result<std::string> readTextFile(const std::string& path, const char* what, size_t most, int milliseconds) {
  // Of a FIFO that nobody writes to, opening and reading would wait for ever.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return Status::fromErrno(errno, "%s %s cannot be opened", what, path.c_str());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  std::string text;
  char buffer[1 << 16];
  int failure = 0;
  bool late = false;
  while (text.size() <= most && failure == 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd some{fd, POLLIN, 0};
    late = left.count() <= 0 || poll(&some, 1, static_cast<int>(left.count())) == 0;
    if (late) break;
    const ssize_t got = read(fd, buffer, std::min(sizeof buffer, most + 1 - text.size()));
    if (got == 0) break;
    if (got > 0)
      text.append(buffer, static_cast<size_t>(got));
    else if (errno != EINTR && errno != EAGAIN)
      failure = errno;
  }
  close(fd);
  if (failure != 0) return Status::fromErrno(failure, "%s %s cannot be read", what, path.c_str());
  if (text.size() > most)
    return Status::error(Code::invalidArgument, "%s %s is longer than %zu bytes", what, path.c_str(), most);
  if (late)
    return Status::error(Code::invalidArgument, "%s %s has not come to its end in %g s: give a file", what,
                         path.c_str(), milliseconds / 1e3);
  return text;
}

Result<std::string> readWholeLines(const std::string& path, const char* what) {
  ECCL_ASSIGN(std::string text, readTextFile(path, what));
  const auto line = 1 + std::count(text.begin(), text.end(), '\n');
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    return Status::error(Code::invalidArgument, "%s:%td: %s is empty", path.c_str(), line, what);
  if (text.back() != '\n')
    return Status::error(Code::invalidArgument, "%s:%td: the last line of %s has no end: the rest is cut off",
                         path.c_str(), line, what);
  return text;
}

Status writeTextFile(const std::string& path, std::string_view text, const char* what) {
  std::error_code error;
  int failure = 0;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    failure = write(path, text, O_TRUNC);
  } else {
    const fs::path target = fs::weakly_canonical(path, error);  // of a link, the file it leads to
    const std::string place = error ? path : target.string(), half = beside(place);
    failure = write(half, text, O_EXCL);
    if (failure == 0 && std::rename(half.c_str(), place.c_str()) != 0) failure = errno;
    if (failure != 0 && failure != EEXIST) fs::remove(half, error);  // else it is another's
  }
  return failure == 0 ? Status() : Status::fromErrno(failure, "%s %s cannot be written", what, path.c_str());
}

}  // namespace eccl
