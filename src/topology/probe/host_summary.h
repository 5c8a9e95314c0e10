// A summary of this machine, for people who read a report and for code that adapts to it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace eccl::topology {

/// One cache of a CPU.
struct CacheLevel {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  uint64_t bytes = 0;
  std::string sharedBy;  // CPUs that share the first CPU's cache of this level, "0-7"
};

/// One network interface, as the kernel shows it.
struct NetworkInterface {
  std::string name;
  std::string state;  // "up", "down", "unknown" (loopback says so)
  uint64_t mtu = 0;
  uint64_t megabitsPerSecond = 0;  // 0: the driver does not say, as virtual ones do not
  std::vector<std::string> addresses;
};

/// How many cores' worth of work can be done at once on so many cores within such a quota (0: no limit), at
/// least 1.
int usableCores(int cores, double quota);

/// The summary: a value. A number that could not be read is 0, a text empty, and `unread` says which and why.
struct HostSummary {
  std::string hostName, kernel, cpuModel, simd;
  int cpus = 0;                  // this process may run on (affinity)
  std::vector<int> allowedCpus;  // those, by number
  double quotaCpus = 0;          // CPU time per time its cgroup grants; 0: no limit
  int numaNodes = 0;
  uint64_t memoryBytes = 0, availableBytes = 0;
  uint64_t memoryLimitBytes = 0;  // of the cgroup; 0: no limit
  std::vector<CacheLevel> caches;
  std::vector<NetworkInterface> interfaces;
  uint64_t shmBytes = 0;      // size of /dev/shm
  uint64_t memlockBytes = 0;  // that may be locked; UINT64_MAX: no limit
  std::string ptraceScope;    // yama's number, or "none" where yama is absent
  std::vector<std::string> unread;

  /// How many cores' worth of work this process can do at once, at least 1.
  int usableCores() const { return eccl::topology::usableCores(cpus, quotaCpus); }
};

/// Where a summary is read from.
struct HostSources {
  std::string root;  // in front of /proc, /sys and /dev; tests keep captured trees elsewhere
  /// (interface, address) pairs; getifaddrs() unless replaced.
  std::function<std::vector<std::pair<std::string, std::string>>()> addresses;
};

/// Reads everything. Never fails as a whole. Takes some milliseconds; any thread.
HostSummary readHost(const HostSources& sources = {});
/// The caches of a CPU, as far as they are known.
struct CpuCaches {
  uint64_t largest = 0;  ///< bytes
  int sharers = 1;       ///< CPUs that share the largest one
};
/// See CpuCaches. Reads little; any thread.
CpuCaches cpuCaches(const HostSources& sources = {});
/// The processors of this machine, for code that measures what they can do.
struct Processors {
  std::string model;         ///< "AMD EPYC, family 26, model 2", as far as the kernel tells
  std::string kernel;        ///< its release
  std::vector<int> online;   ///< by number
  std::vector<int> allowed;  ///< that this process may run on
  std::vector<int> threads;  ///< of the core of the first of these, itself included
  double quota = 0;          ///< CPU time per time that the cgroup grants; 0: no limit
};
/// See Processors. Reads little; any thread.
Processors processors(const HostSources& sources = {});
/// The CPU time per time that the cgroup of this process grants; 0: no limit. Reads little; any thread.
double cpuQuota(const HostSources& sources = {});
/// The speed that a network interface says, in 10^6 bits per second; 0: it says none. Bonds and VLANs say that
/// of what they stand for, a veth says 10000 whatever it is. Reads little; any thread.
uint64_t interfaceMegabits(const std::string& name, const HostSources& sources = {});
/// The summary in some lines, each ending with a newline.
std::string describe(const HostSummary& host);

}  // namespace eccl::topology
