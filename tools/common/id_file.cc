#include "tools/common/id_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#include "tools/common/number.h"

namespace eccl::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPollEvery = std::chrono::milliseconds(5);
constexpr long long kDefaultWaitSeconds = 60;

// Field 22 of /proc/<pid>/stat: with the number it names a process for good, numbers being reused. 0 = gone.
unsigned long long startTime(long pid) {
  std::ifstream file(formatted("/proc/%ld/stat", pid));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name = text.rfind(')');  // the name may hold spaces and parentheses; fields 3.. follow it
  if (name == std::string::npos) return 0;
  std::istringstream fields(text.substr(name + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  unsigned long long start = 0;
  fields >> start;
  return start;
}

std::string hexOf(const ecclUniqueId& id) {
  std::string text;
  for (char byte : id.internal) text += formatted("%02x", static_cast<unsigned char>(byte));
  return text;
}

bool fromHex(const std::string& text, ecclUniqueId* id) {
  if (text.size() != 2 * sizeof id->internal) return false;
  for (size_t i = 0; i < sizeof id->internal; ++i) {
    unsigned byte;
    if (std::sscanf(text.c_str() + 2 * i, "%2x", &byte) != 1) return false;
    id->internal[i] = static_cast<char>(byte);
  }
  return true;
}

// True when the file is there, ours alone, whole, and its writer lives.
bool readId(const std::string& path, ecclUniqueId* id) {
  const int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return false;
  struct stat status {};
  char text[1024] = {};
  const bool ours = fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0;
  const ssize_t length = ours ? read(fd, text, sizeof text - 1) : -1;
  close(fd);
  if (length <= 0) return false;
  std::istringstream words(text);
  long pid = 0;
  unsigned long long start = 0;
  std::string hex;
  words >> pid >> start >> hex;
  return words && start != 0 && startTime(pid) == start && fromHex(hex, id);
}

// The library's own limit for joining: waiting for the id is the first part of joining.
long long waitSeconds() {
  const char* text = std::getenv("ECCL_INIT_TIMEOUT");
  long long seconds = kDefaultWaitSeconds;
  if (text != nullptr) parseInteger(text, 1, INT32_MAX, &seconds);
  return seconds;
}

}  // namespace

std::string idFileName(const std::string& job) {
  std::string name = "id-";
  if (job.empty()) name += formatted("parent%d.%llu", getppid(), startTime(getppid()));
  for (char c : job) name += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ? c : '_';
  return name.substr(0, 200);
}

Outcome privateDirectory(const Environment& environment, std::string* directory) {
  const char* runtime = environment("XDG_RUNTIME_DIR");
  *directory = runtime != nullptr && *runtime != '\0' ? runtime : formatted("/tmp/eccl-perf-%u", geteuid());
  if (runtime == nullptr && mkdir(directory->c_str(), 0700) != 0 && errno != EEXIST)
    return Outcome::fromErrno(errno, "making " + *directory + ", through which the ranks pass the id");
  struct stat status {};
  if (lstat(directory->c_str(), &status) != 0)
    return Outcome::fromErrno(errno, "looking at " + *directory + ", through which the ranks pass the id");
  if (S_ISDIR(status.st_mode) && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return {};
  return Outcome::error(
      Exit::usage,
      "%s is not a directory that belongs to user %u alone (mode 0700), so the id is not safe in it. Set "
      "XDG_RUNTIME_DIR to one, or ECCL_COMM_ID=<host>:<port> and ECCL_COMM_SECRET_FILE",
      directory->c_str(), geteuid());
}

Outcome FileRendezvous::id(ecclUniqueId* id) {
  std::string directory;
  TOOLS_TRY(privateDirectory(::getenv, &directory));
  path_ = directory + "/" + name_;
  if (rank_ != 0) return wait(id);
  TOOLS_TRY(Outcome::library(ecclGetUniqueId(id), nullptr, "ecclGetUniqueId"));
  return write(*id);
}

// The process number in the draft's name keeps two jobs that wrongly share a name from writing one file.
Outcome FileRendezvous::write(const ecclUniqueId& id) {
  const std::string text = formatted("%d %llu %s\n", getpid(), startTime(getpid()), hexOf(id).c_str());
  const std::string draft = formatted("%s.%d", path_.c_str(), getpid());
  unlink(draft.c_str());
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return Outcome::fromErrno(errno, "creating " + draft);
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  close(fd);
  // The rename makes the whole id appear at once.
  if (written && rename(draft.c_str(), path_.c_str()) == 0) {
    written_ = true;
    return {};
  }
  const Outcome outcome = Outcome::fromErrno(written ? errno : error, "writing " + path_);
  unlink(draft.c_str());
  return outcome;
}

Outcome FileRendezvous::wait(ecclUniqueId* id) {
  const long long seconds = waitSeconds();
  const Clock::time_point limit = Clock::now() + std::chrono::seconds(seconds);
  while (!readId(path_, id)) {
    if (Clock::now() >= limit)
      return Outcome::error(
          Exit::timeout,
          "process %d waited %lld s for rank 0 to write %s. If the ranks are not all started by one launcher "
          "process on this host, set ECCL_COMM_ID=<host of rank 0>:<free port> and ECCL_COMM_SECRET_FILE",
          rank_, seconds, path_.c_str());
    std::this_thread::sleep_for(kPollEvery);
  }
  return {};
}

void FileRendezvous::joined() {
  if (written_) unlink(path_.c_str());
  written_ = false;
}

}  // namespace eccl::tools
