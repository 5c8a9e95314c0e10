#include "base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace eccl {

Result<std::string> readTextFile(const std::string& path, const char* what) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::fromErrno(errno, "%s %s cannot be opened", what, path.c_str());
  std::string text;
  char buffer[1 << 16];
  ssize_t got;
  while ((got = read(fd, buffer, sizeof buffer)) > 0 && text.size() <= kLongestTextFile)
    text.append(buffer, static_cast<size_t>(got));
  const int failure = errno;
  close(fd);
  if (got < 0) return Status::fromErrno(failure, "%s %s cannot be read", what, path.c_str());
  if (text.size() > kLongestTextFile)
    return Status::error(Code::invalidArgument, "%s %s is longer than %zu bytes", what, path.c_str(),
                         kLongestTextFile);
  return text;
}

}  // namespace eccl
