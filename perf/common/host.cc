#include "common/host.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace eccl::perf {
namespace {

// What follows "<key> : " in a file of such lines; "" if the key is not there.
std::string field(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t colon = line.find(':');
    const size_t value = line.find_first_not_of(" \t", colon == std::string::npos ? colon : colon + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return {};
}

template <size_t size>
void store(char (&to)[size], const std::string& text) {
  std::snprintf(to, size, "%s", text.c_str());
}

}  // namespace

bool ProcessRecord::sameHost(const ProcessRecord& other) const {
  return std::strcmp(host, other.host) == 0 && std::strcmp(boot, other.boot) == 0;
}

ProcessRecord thisProcess(int color) {
  ProcessRecord record{};
  char name[256] = "unknown";
  gethostname(name, sizeof name - 1);
  store(record.host, std::string(name).substr(0, std::string(name).find('.')));
  std::ifstream bootFile("/proc/sys/kernel/random/boot_id");
  std::string boot;
  bootFile >> boot;
  store(record.boot, boot);
  const std::string model = field("/proc/cpuinfo", "model name");  // Arm kernels have no such line
  store(record.processor, model.empty() ? "host processor" : model);
  record.availableMemory = std::strtoull(field("/proc/meminfo", "MemAvailable").c_str(), nullptr, 10) * 1024;
  record.pid = getpid();
  record.color = color;
  return record;
}

// Host names alone would mix up containers that share one; boot ids alone, those that share a kernel.
int localRank(const std::vector<ProcessRecord>& all, int proc) {
  return static_cast<int>(
      std::count_if(all.begin(), all.begin() + proc, [&](const auto& r) { return r.sameHost(all[proc]); }));
}

int localSize(const std::vector<ProcessRecord>& all, int proc) {
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](const auto& r) { return r.sameHost(all[proc]); }));
}

std::vector<DeviceLine> deviceLines(const std::vector<ProcessRecord>& all, int ranksPerProcess,
                                    int firstDevice) {
  std::vector<DeviceLine> lines;
  for (int proc = 0; proc < static_cast<int>(all.size()); ++proc) {
    const int first = firstDevice >= 0 ? firstDevice : localRank(all, proc) * ranksPerProcess;
    for (int i = 0; i < ranksPerProcess; ++i)
      lines.push_back({proc * ranksPerProcess + i, all[proc].color, all[proc].pid, all[proc].host, first + i,
                       "0000:00:00", all[proc].processor});
  }
  return lines;
}

// Every process computes this from the same records, so all sweep the same sizes.
size_t largestBuffer(const std::vector<ProcessRecord>& all, int ranksPerProcess) {
  size_t least = SIZE_MAX;
  for (int proc = 0; proc < static_cast<int>(all.size()); ++proc) {
    if (all[proc].availableMemory == 0) continue;  // no /proc/meminfo: nothing is known
    const size_t buffers = 2 * static_cast<size_t>(localSize(all, proc)) * static_cast<size_t>(ranksPerProcess);
    least = std::min(least, static_cast<size_t>(all[proc].availableMemory / 10 * 9 / buffers));
  }
  return least;
}

int64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace eccl::perf
