// Small files of the kernel: /proc and /sys, or those of a captured machine.
#include "topology/probe/system_files.h"

#include <dirent.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>

namespace eccl::topology {
namespace fs = std::filesystem;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\n");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// By stdio: streams throw where reading (not opening) fails, as sysfs likes to.
std::optional<std::string> contentOf(const std::string& path) {
  constexpr size_t kMax = size_t{16} << 20;  // of a captured machine anything may lie there
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(fd < 0 ? nullptr : fdopen(fd, "r"), std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  char piece[4096];
  while (const size_t count = text.size() < kMax ? std::fread(piece, 1, sizeof piece, file.get()) : 0)
    text.append(piece, count);
  const bool failed = std::ferror(file.get()) != 0;
  const int why = errno;
  file.reset();
  errno = why;
  return failed ? std::nullopt : std::optional(text);
}

// Not by std::filesystem, whose iterators end the process where there is no memory for them.
std::vector<std::string> entriesOf(const std::string& folder, const std::string& prefix, std::string* error) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  errno = open == nullptr ? errno : 0;
  for (const dirent* entry; open != nullptr && (entry = readdir(open.get())) != nullptr; errno = 0) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name.starts_with(prefix)) names.emplace_back(name);
  }
  *error = errno != 0 ? std::strerror(errno) : "";
  std::sort(names.begin(), names.end());
  return names;
}

std::string fieldOf(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t at = line.find_first_not_of(" \t:", key.size());
    return at == line.npos ? "" : trimmed(line.substr(at));
  }
  return "";
}

std::vector<int> cpusIn(const std::string& list) {
  constexpr int kMaxCpus = 1 << 16;  // what is larger is no list of CPUs, and must not fill the memory
  std::vector<int> cpus;
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    int first = 0, last = 0;
    const int found = std::sscanf(range.c_str(), "%d-%d", &first, &last);
    if (found < 1) continue;
    if (found == 1) last = first;
    if (first < 0 || last >= kMaxCpus) continue;
    for (int cpu = first; cpu <= last; ++cpu) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<int64_t> numberIn(const std::string& text) {
  if (text.empty()) return std::nullopt;
  char* end = nullptr;
  errno = 0;
  const bool hexadecimal = text.rfind("0x", 0) == 0;
  const long long value = std::strtoll(text.c_str(), &end, hexadecimal ? 16 : 10);
  if (errno != 0 || *end != '\0') return std::nullopt;
  return value;
}

std::string SystemFiles::text(const std::string& name) const {
  return trimmed(contentOf(path(name)).value_or(""));
}

std::vector<std::string> SystemFiles::entries(const std::string& folder) const {
  std::string error;
  return entriesOf(path(folder), "", &error);
}

bool SystemFiles::exists(const std::string& name) const {
  std::error_code error;
  return fs::exists(path(name), error);
}

std::string SystemFiles::resolved(const std::string& name) const {
  std::error_code error;
  const fs::path where = fs::canonical(path(name), error);
  return error ? "" : where.string();
}

}  // namespace eccl::topology
