// What a process tells the others about itself and its host.
#pragma once

#include <cstdint>
#include <vector>

#include "common/report.h"

namespace eccl::perf {

/// Plain bytes: gathered from all processes. Strings are cut to fit and end with a zero.
struct ProcessRecord {
  char host[128];       ///< name up to the first dot
  char boot[64];        ///< the kernel's boot id: with the name, tells hosts apart
  char processor[128];  ///< model name
  uint64_t availableMemory;
  double joinSeconds;  ///< until its ranks had joined
  int32_t pid;
  int32_t color;
  bool sameHost(const ProcessRecord& other) const;
};

ProcessRecord thisProcess(int color);
/// Processes before `proc` on its host, and all on its host.
int localRank(const std::vector<ProcessRecord>& all, int proc);
int localSize(const std::vector<ProcessRecord>& all, int proc);

/// One line per rank. `firstDevice` < 0: devices are numbered from 0 on every host.
std::vector<DeviceLine> deviceLines(const std::vector<ProcessRecord>& all, int ranksPerProcess,
                                    int firstDevice);

/// The largest buffer that fits for two of them per rank on every host, with a tenth of what is free kept.
size_t largestBuffer(const std::vector<ProcessRecord>& all, int ranksPerProcess);

/// Bytes of memory this process uses now.
int64_t residentBytes();

}  // namespace eccl::perf
