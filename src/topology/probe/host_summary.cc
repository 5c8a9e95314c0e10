// The summary of a machine, fact by fact, each from its file of the kernel.
#include "topology/probe/host_summary.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>

#include "base/status.h"
#include "topology/probe/system_files.h"

namespace eccl::topology {
namespace {

/// A number with a unit as sysfs and /proc write them: "32K", "24684096 kB".
uint64_t bytesFrom(const std::string& text) {
  char* unit = nullptr;
  const uint64_t number = std::strtoull(text.c_str(), &unit, 10);
  switch (std::toupper(static_cast<unsigned char>(trimmed(unit).c_str()[0]))) {
    case 'K':
      return number << 10;
    case 'M':
      return number << 20;
    case 'G':
      return number << 30;
    default:
      return number;
  }
}

std::vector<std::pair<std::string, std::string>> systemAddresses() {
  std::vector<std::pair<std::string, std::string>> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const void* address =
        family == AF_INET ? static_cast<const void*>(&reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr)
                          : &reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(family, address, text, sizeof text);
    found.emplace_back(entry->ifa_name, text);
  }
  freeifaddrs(list);
  return found;
}

class Reader {
 public:
  explicit Reader(const HostSources& sources) : sources_(sources) {}

  std::vector<CacheLevel> caches() {
    readCaches();
    return std::move(host_.caches);
  }
  double quotaCpus() {
    readQuota();
    return host_.quotaCpus;
  }
  Processors processors() {
    Processors found;
    const std::string info = text("/proc/cpuinfo");
    auto add = [&](const char* field, const char* called) {
      const std::string value = fieldOf(info, field);
      if (!value.empty()) found.model += (found.model.empty() ? "" : ", ") + std::string(called) + value;
    };
    add("model name", "");
    add("cpu family", "family ");
    add("model", "model ");
    add("CPU implementer", "implementer ");  // arm64 knows no names
    add("CPU part", "part ");
    found.kernel = kernel();
    found.online = cpusIn(text("/sys/devices/system/cpu/online"));
    found.allowed = allowedCpus();
    if (!found.allowed.empty())
      found.threads = cpusIn(optionalText(
          format("/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", found.allowed.front())));
    found.quota = quotaCpus();
    return found;
  }
  HostSummary read() {
    host_.hostName = trimmed(text("/proc/sys/kernel/hostname"));
    host_.kernel = kernel();
    readCpu();
    readMemory();
    readCaches();
    readInterfaces();
    return std::move(host_);
  }

 private:
  std::string path(const std::string& name) const { return sources_.root + name; }

  /// A file's text; notes it when it cannot be read.
  std::string text(const std::string& name) {
    std::optional<std::string> content = contentOf(path(name));
    if (content) return *content;
    host_.unread.push_back(name + ": " + std::strerror(errno));
    return "";
  }

  /// A file that may well be absent.
  std::string optionalText(const std::string& name) const {
    return trimmed(contentOf(path(name)).value_or(""));
  }

  std::vector<std::string> entriesOf(const std::string& folder, const char* prefix) {
    std::string error;
    std::vector<std::string> names = eccl::topology::entriesOf(path(folder), prefix, &error);
    if (!error.empty()) host_.unread.push_back(folder + ": " + error);
    return names;
  }

  std::string kernel() { return trimmed(text("/proc/sys/kernel/osrelease")); }
  std::vector<int> allowedCpus() { return cpusIn(fieldOf(text("/proc/self/status"), "Cpus_allowed_list")); }

  void readCpu() {
    const std::string info = text("/proc/cpuinfo");
    host_.cpuModel = fieldOf(info, "model name");
    if (host_.cpuModel.empty()) host_.cpuModel = fieldOf(info, "CPU part");  // arm64 knows no names
    std::istringstream flags(fieldOf(info, "flags") + " " + fieldOf(info, "Features"));
    const std::set<std::string> present{std::istream_iterator<std::string>(flags), {}};
    for (const char* name : {"sse4_2", "avx", "avx2", "f16c", "fma", "avx512f", "avx512bw", "avx512_bf16",
                             "avx512_fp16", "asimd", "asimdhp", "sve", "sve2"}) {
      if (present.count(name) != 0) host_.simd += (host_.simd.empty() ? "" : " ") + std::string(name);
    }
    host_.allowedCpus = allowedCpus();
    host_.cpus = static_cast<int>(host_.allowedCpus.size());
    for (const std::string& name : entriesOf("/sys/devices/system/node", "node")) {
      if (std::isdigit(static_cast<unsigned char>(name[4])) != 0) ++host_.numaNodes;
    }
    readQuota();
  }

  void readQuota() {
    forEachCgroup("cpu", [&](const std::string& folder) {
      double quota = 0, period = 0;
      const std::string both = optionalText(folder + "/cpu.max");  // version 2: "max 100000"
      if (std::sscanf(both.c_str(), "%lf %lf", &quota, &period) != 2) {
        quota = std::atof(optionalText(folder + "/cpu.cfs_quota_us").c_str());  // version 1; -1: none
        period = std::atof(optionalText(folder + "/cpu.cfs_period_us").c_str());
      }
      if (quota <= 0 || period <= 0) return;
      host_.quotaCpus = host_.quotaCpus == 0 ? quota / period : std::min(host_.quotaCpus, quota / period);
    });
  }

  void readMemory() {
    const std::string info = text("/proc/meminfo");
    host_.memoryBytes = bytesFrom(fieldOf(info, "MemTotal"));
    host_.availableBytes = bytesFrom(fieldOf(info, "MemAvailable"));
    forEachCgroup("memory", [&](const std::string& folder) {
      uint64_t limit = bytesFrom(optionalText(folder + "/memory.max"));  // "max" reads as 0
      if (limit == 0) limit = bytesFrom(optionalText(folder + "/memory.limit_in_bytes"));
      if (limit == 0 || limit >= host_.memoryBytes) return;  // version 1 writes "no limit" as a huge number
      host_.memoryLimitBytes = host_.memoryLimitBytes == 0 ? limit : std::min(host_.memoryLimitBytes, limit);
    });
    struct statvfs shm {};
    if (statvfs(path("/dev/shm").c_str(), &shm) == 0) {
      host_.shmBytes = static_cast<uint64_t>(shm.f_blocks) * shm.f_frsize;
    } else {
      host_.unread.push_back(format("/dev/shm: %s", std::strerror(errno)));
    }
    const std::string locked = fieldOf(text("/proc/self/limits"), "Max locked memory");
    host_.memlockBytes =
        locked.rfind("unlimited", 0) == 0 ? UINT64_MAX : bytesFrom(locked.substr(0, locked.find(' ')));
    host_.ptraceScope = optionalText("/proc/sys/kernel/yama/ptrace_scope");
    if (host_.ptraceScope.empty()) host_.ptraceScope = "none";
  }

  /// Calls `visit` with every folder whose limits hold for this process: its cgroup and those above it.
  template <class Visit>
  void forEachCgroup(const std::string& controller, Visit visit) {
    std::istringstream lines(optionalText("/proc/self/cgroup"));
    for (std::string line; std::getline(lines, line);) {  // "4:cpu,cpuacct:/a/b", or "0::/a/b" (version 2)
      const size_t first = line.find(':'), second = line.find(':', first + 1);
      if (first == line.npos || second == line.npos) continue;
      const std::string names = line.substr(first + 1, second - first - 1);
      if (!names.empty() && ("," + names + ",").find("," + controller + ",") == names.npos) continue;
      std::string at = line.substr(second + 1);
      if (at == "/") at.clear();
      for (;;) {
        visit("/sys/fs/cgroup" + (names.empty() ? "" : "/" + names) + at);
        if (at.empty()) break;
        at = at.substr(0, at.rfind('/'));
      }
    }
  }

  void readCaches() {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache";
    for (const std::string& index : entriesOf(folder, "index")) {
      const std::string at = folder + "/" + index;
      CacheLevel cache;
      cache.level = std::atoi(text(at + "/level").c_str());
      cache.type = trimmed(text(at + "/type"));
      cache.bytes = bytesFrom(text(at + "/size"));
      cache.sharedBy = trimmed(text(at + "/shared_cpu_list"));
      host_.caches.push_back(std::move(cache));
    }
  }

  void readInterfaces() {
    const auto addresses = sources_.addresses ? sources_.addresses() : systemAddresses();
    for (const std::string& name : entriesOf("/sys/class/net", "")) {
      NetworkInterface interface;
      interface.name = name;
      const std::string at = "/sys/class/net/" + name;
      interface.state = optionalText(at + "/operstate");
      interface.mtu = std::strtoull(optionalText(at + "/mtu").c_str(), nullptr, 10);
      interface.megabitsPerSecond = interfaceMegabits(name, sources_);
      for (const auto& [owner, address] : addresses) {
        if (owner == name) interface.addresses.push_back(address);
      }
      host_.interfaces.push_back(std::move(interface));
    }
  }

  const HostSources& sources_;
  HostSummary host_;
};

std::string sizeText(uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < std::size(units); ++unit) value /= 1024;
  return format(value == std::floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

std::string orUnknown(const std::string& text) {
  return text.empty() ? "unknown" : text;
}

}  // namespace

int usableCores(int cores, double quota) {
  return std::max(1, static_cast<int>(quota > 0 ? std::min<double>(cores, std::ceil(quota)) : cores));
}

HostSummary readHost(const HostSources& sources) {
  return Reader(sources).read();
}

CpuCaches cpuCaches(const HostSources& sources) {
  CpuCaches found;
  for (const CacheLevel& cache : Reader(sources).caches()) {
    if (cache.bytes <= found.largest) continue;
    found.largest = cache.bytes;
    found.sharers = std::max<int>(1, cpusIn(cache.sharedBy).size());
  }
  return found;
}

Processors processors(const HostSources& sources) {
  return Reader(sources).processors();
}

double cpuQuota(const HostSources& sources) {
  return Reader(sources).quotaCpus();
}

uint64_t interfaceMegabits(const std::string& name, const HostSources& sources) {
  // Reading it fails where there is no link, and some virtual devices say -1.
  const std::string text = contentOf(sources.root + "/sys/class/net/" + name + "/speed").value_or("");
  return static_cast<uint64_t>(std::max(std::atoll(text.c_str()), 0LL));
}

std::string describe(const HostSummary& host) {
  std::string text =
      format("host      %s, Linux %s\n", orUnknown(host.hostName).c_str(), orUnknown(host.kernel).c_str());
  text += format("CPU       %s; %d usable", orUnknown(host.cpuModel).c_str(), host.cpus);
  if (host.quotaCpus > 0) text += format(", the cgroup grants %.4g", host.quotaCpus);
  text += format("; %d NUMA node%s; SIMD %s\n", host.numaNodes, host.numaNodes == 1 ? "" : "s",
                 orUnknown(host.simd).c_str());
  text += "caches   ";
  if (host.caches.empty()) text += " unknown";
  for (const CacheLevel& cache : host.caches) {
    const char* kind = cache.type == "Data" ? "d" : cache.type == "Instruction" ? "i" : "";
    text +=
        format(" L%d%s %s (CPUs %s)", cache.level, kind, sizeText(cache.bytes).c_str(), cache.sharedBy.c_str());
  }
  text += format("\nmemory    %s, %s available", sizeText(host.memoryBytes).c_str(),
                 sizeText(host.availableBytes).c_str());
  if (host.memoryLimitBytes > 0)
    text += format(", the cgroup's limit is %s", sizeText(host.memoryLimitBytes).c_str());
  text += format("; /dev/shm %s; lockable %s; ptrace scope %s\n", sizeText(host.shmBytes).c_str(),
                 host.memlockBytes == UINT64_MAX ? "without limit" : sizeText(host.memlockBytes).c_str(),
                 host.ptraceScope.c_str());
  for (const NetworkInterface& interface : host.interfaces) {
    text +=
        format("network   %s %s, MTU %llu, %s", interface.name.c_str(), orUnknown(interface.state).c_str(),
               static_cast<unsigned long long>(interface.mtu),
               interface.megabitsPerSecond > 0
                   ? format("%llu Mbit/s", static_cast<unsigned long long>(interface.megabitsPerSecond)).c_str()
                   : "speed unknown");
    for (const std::string& address : interface.addresses) text += " " + address;
    text += "\n";
  }
  for (const std::string& what : host.unread) text += "unread    " + what + "\n";
  return text;
}

}  // namespace eccl::topology
