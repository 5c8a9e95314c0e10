#include "topology/probe/host_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace eccl::topology {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Tree = std::map<std::string, std::string>;

// A two-socket server, as its files read.
const Tree kServer = {
    {"/proc/sys/kernel/hostname", "node7\n"},
    {"/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n"},
    {"/proc/sys/kernel/yama/ptrace_scope", "1\n"},
    {"/proc/cpuinfo",
     "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Gold 6338\nflags\t\t: fpu sse4_2 avx2 avx512f "
     "avx2_not\n\nprocessor\t: 1\nmodel name\t: other\n"},
    {"/proc/self/status", "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-3,8,10-11\n"},
    {"/proc/self/limits",
     "Limit                     Soft Limit           Hard Limit           Units     \n"
     "Max locked memory         67108864             unlimited            bytes     \n"},
    {"/proc/meminfo", "MemTotal:       527923200 kB\nMemFree: 1 kB\nMemAvailable:   262144 kB\n"},
    {"/sys/devices/system/node/node0/cpulist", "0-31\n"},
    {"/sys/devices/system/node/node1/cpulist", "32-63\n"},
    {"/sys/devices/system/node/has_cpu", "0-1\n"},
    {"/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"},
    {"/sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"},
    {"/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"},
    {"/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0,64\n"},
    {"/sys/class/net/eth0/operstate", "up\n"},
    {"/sys/class/net/eth0/mtu", "9000\n"},
    {"/sys/class/net/eth0/speed", "100000\n"},
    {"/sys/class/net/tap0/operstate", "up\n"},
    {"/sys/class/net/tap0/mtu", "1500\n"},
    {"/sys/class/net/tap0/speed", "-1\n"},
    {"/dev/shm/.keep", ""},
};

class HostSummaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("eccl_host_" + std::to_string(getpid()));
    for (const auto& [name, text] : kServer) write(name, text);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& name, const std::string& text) const {
    const fs::path at = root_.string() + name;
    fs::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  HostSources sources() const {
    HostSources sources;
    sources.root = root_;
    sources.addresses = [] {
      return std::vector<std::pair<std::string, std::string>>{
          {"lo", "127.0.0.1"}, {"eth0", "10.0.0.7"}, {"eth0", "fe80::7"}};
    };
    return sources;
  }
  HostSummary read() const { return readHost(sources()); }

  fs::path root_;
};

TEST_F(HostSummaryTest, ReadsACapturedServer) {
  const HostSummary host = read();
  EXPECT_THAT(host.unread, IsEmpty());
  EXPECT_EQ(host.hostName, "node7");
  EXPECT_EQ(host.kernel, "6.1.0-18-amd64");
  EXPECT_EQ(host.cpuModel, "Intel(R) Xeon(R) Gold 6338");
  EXPECT_EQ(host.simd, "sse4_2 avx2 avx512f");
  EXPECT_EQ(host.cpus, 7);
  EXPECT_EQ(host.usableCores(), 7);
  EXPECT_EQ(host.numaNodes, 2);
  EXPECT_EQ(host.memoryBytes, 527923200ULL << 10);
  EXPECT_EQ(host.availableBytes, 256ULL << 20);
  EXPECT_EQ(host.memoryLimitBytes, 0U);
  EXPECT_EQ(host.memlockBytes, 64ULL << 20);
  EXPECT_EQ(host.ptraceScope, "1");
  EXPECT_GT(host.shmBytes, 0U);
  ASSERT_EQ(host.caches.size(), 1U);
  EXPECT_EQ(host.caches[0].bytes, 48U << 10);
  EXPECT_EQ(host.caches[0].sharedBy, "0,64");
  ASSERT_EQ(host.interfaces.size(), 2U);
  EXPECT_EQ(host.interfaces[0].name, "eth0");
  EXPECT_EQ(host.interfaces[0].megabitsPerSecond, 100000U);
  EXPECT_EQ(host.interfaces[0].mtu, 9000U);
  EXPECT_THAT(host.interfaces[0].addresses, ElementsAre("10.0.0.7", "fe80::7"));
  EXPECT_EQ(host.interfaces[1].megabitsPerSecond, 0U) << "-1 is no speed";
  EXPECT_THAT(describe(host), AllOf(HasSubstr("node7"), HasSubstr("7 usable"), HasSubstr("2 NUMA nodes"),
                                    HasSubstr("L1d 48 KiB (CPUs 0,64)"), HasSubstr("lockable 64 MiB"),
                                    HasSubstr("eth0 up, MTU 9000, 100000 Mbit/s 10.0.0.7 fe80::7"),
                                    HasSubstr("tap0 up, MTU 1500, speed unknown"), Not(HasSubstr("unread"))));
}

TEST_F(HostSummaryTest, ProcessorsAreToldApart) {
  write("/proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: X\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n");
  write("/sys/devices/system/cpu/online", "0-11\n");
  write("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,8\n");
  const Processors found = processors(sources());
  EXPECT_EQ(found.model, "AMD EPYC, family 26, model 2");
  EXPECT_EQ(found.kernel, "6.1.0-18-amd64");
  EXPECT_EQ(found.online.size(), 12U);
  EXPECT_THAT(found.allowed, ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(found.threads, ElementsAre(0, 8));
  EXPECT_EQ(found.quota, 0);
  write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n");
  EXPECT_EQ(processors(sources()).model, "implementer 0x41, part 0xd40");
}

TEST_F(HostSummaryTest, TheLargestCacheTellsWhoSharesIt) {
  EXPECT_EQ(cpuCaches(sources()).largest, 48U << 10);
  EXPECT_EQ(cpuCaches(sources()).sharers, 2);
  const std::string at = "/sys/devices/system/cpu/cpu0/cache/index3/";
  write(at + "level", "3\n");
  write(at + "size", "32768K\n");
  write(at + "shared_cpu_list", "0-7,64-71\n");
  EXPECT_EQ(cpuCaches(sources()).largest, 32U << 20);
  EXPECT_EQ(cpuCaches(sources()).sharers, 16);
  HostSources nothing;
  nothing.root = "/nowhere";
  EXPECT_EQ(cpuCaches(nothing).largest, 0U);
  EXPECT_EQ(cpuCaches(nothing).sharers, 1);
}

TEST_F(HostSummaryTest, TakesTheTightestLimitOfTheCgroupsAbove) {
  write("/proc/self/cgroup", "0::/kube/pod/box\n");
  write("/sys/fs/cgroup/kube/pod/box/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/kube/pod/cpu.max", "250000 100000\n");
  write("/sys/fs/cgroup/kube/cpu.max", "900000 100000\n");
  write("/sys/fs/cgroup/kube/memory.max", "1073741824\n");
  const HostSummary host = read();
  EXPECT_EQ(host.quotaCpus, 2.5);
  EXPECT_EQ(cpuQuota(sources()), 2.5);
  EXPECT_EQ(host.usableCores(), 3);
  EXPECT_EQ(host.memoryLimitBytes, 1ULL << 30);
  EXPECT_THAT(describe(host), AllOf(HasSubstr("grants 2.5"), HasSubstr("limit is 1 GiB")));
}

TEST_F(HostSummaryTest, KnowsTheFirstVersionOfCgroups) {
  write("/proc/self/cgroup", "9:memory:/box\n4:cpu,cpuacct:/box\n3:cpuset:/other\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n");
  const HostSummary host = read();
  EXPECT_EQ(host.quotaCpus, 0.5);
  EXPECT_EQ(host.usableCores(), 1);
  EXPECT_EQ(host.memoryLimitBytes, 0U) << "a number larger than the memory is no limit";
}

TEST_F(HostSummaryTest, SaysWhatItCouldNotRead) {
  fs::remove(root_.string() + "/proc/meminfo");
  fs::remove_all(root_.string() + "/sys/devices/system/cpu");
  fs::remove(root_.string() + "/proc/sys/kernel/yama/ptrace_scope");
  const HostSummary host = read();
  EXPECT_THAT(host.unread, Contains(HasSubstr("/proc/meminfo: No such file")));
  EXPECT_THAT(host.unread, Contains(HasSubstr("/sys/devices/system/cpu/cpu0/cache: No such file")));
  EXPECT_EQ(host.ptraceScope, "none");
  EXPECT_THAT(describe(host), HasSubstr("unread    /proc/meminfo"));
}

TEST(HostSummary, AQuotaLimitsTheCoresThatAreOfUse) {
  EXPECT_EQ(usableCores(8, 0), 8);
  EXPECT_EQ(usableCores(8, 2.5), 3);
  EXPECT_EQ(usableCores(2, 3.5), 2);
  EXPECT_EQ(usableCores(8, 0.1), 1);
  EXPECT_EQ(usableCores(0, 0), 1);
  EXPECT_EQ(usableCores(0, 4), 1);
}

TEST(HostSummary, AgreesWithTheSystemItRunsOn) {
  const HostSummary host = readHost();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(host.cpus, CPU_COUNT(&set));
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  EXPECT_EQ(host.hostName, name);
  EXPECT_GT(host.memoryBytes, host.availableBytes);
  bool loopback = false;
  for (const NetworkInterface& interface : host.interfaces) {
    for (const std::string& address : interface.addresses) loopback = loopback || address == "127.0.0.1";
  }
  EXPECT_TRUE(loopback) << describe(host);
}

}  // namespace
}  // namespace eccl::topology
