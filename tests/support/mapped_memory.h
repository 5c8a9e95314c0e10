// The mapped memory of this process, as the kernel sees it.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace eccl::test {

/// KiB, of the mappings whose name contains `name`.
inline int touchedKiB(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  int sum = 0;
  bool counts = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first.back() != ':') counts = line.find(name) != std::string::npos;
    int kib = 0;
    if (counts && first == "Rss:" && words >> kib) sum += kib;
  }
  return sum;
}

/// Where the first mapping of this name begins; null if there is none.
inline const void* beginOfMapping(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos)
      return reinterpret_cast<const void*>(static_cast<uintptr_t>(std::stoull(line, nullptr, 16)));
  }
  return nullptr;
}

}  // namespace eccl::test
