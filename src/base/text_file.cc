#include "base/text_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

Result<std::string> readBeginning(const std::string& path, const char* what, size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::fromErrno(errno, "%s %s cannot be opened", what, path.c_str());
  std::string text;
  char buffer[1 << 16];
  ssize_t got;
  while ((got = read(fd, buffer, std::min(sizeof buffer, most - text.size()))) > 0)
    text.append(buffer, static_cast<size_t>(got));
  const int failure = errno;
  close(fd);
  if (got < 0) return Status::fromErrno(failure, "%s %s cannot be read", what, path.c_str());
  return text;
}

Result<std::string> readTextFile(const std::string& path, const char* what) {
  ECCL_ASSIGN(std::string text, readBeginning(path, what, kLongestTextFile + 1));
  if (text.size() > kLongestTextFile)
    return Status::error(Code::invalidArgument, "%s %s is longer than %zu bytes", what, path.c_str(),
                         kLongestTextFile);
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
