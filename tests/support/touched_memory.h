// How much of its mapped memory this process has touched, as the kernel sees it.
#pragma once

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

}  // namespace eccl::test
