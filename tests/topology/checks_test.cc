#include "topology/checks/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "topology/machine_tree.h"
#include "topology/probe/host_summary.h"
#include "topology/probe/probe.h"

namespace eccl::topology {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Matcher;
using ::testing::Not;

Matcher<const Finding&> finding(Severity severity, const std::string& id, const std::string& device) {
  return AllOf(Field(&Finding::severity, severity), Field(&Finding::id, id), Field(&Finding::device, device),
               Field(&Finding::evidence, Not(IsEmpty())), Field(&Finding::consequence, Not(IsEmpty())),
               Field(&Finding::remedy, Not(IsEmpty())));
}
Matcher<const Finding&> saying(const std::string& evidence) {
  return Field(&Finding::evidence, HasSubstr(evidence));
}

class ChecksTest : public ::testing::Test {
 protected:
  std::vector<Finding> check() const {
    const Host host = probeHost({.root = server_.root()});
    EXPECT_TRUE(validate(host).ok()) << validate(host).message();
    std::vector<Finding> findings = checkHost(host, {server_.root()});
    // /dev/shm below the root is a folder of whatever file system the tests write to; it has its own test.
    std::erase_if(findings, [](const Finding& each) { return each.id == "shm-size"; });
    return findings;
  }
  void set(const std::string& busId, const std::string& file, const std::string& text) const {
    server_.write(server_.folderOf(busId) + file, text + "\n");
  }
  void setPort(const std::string& busId, const std::string& device, const std::string& file,
               const std::string& text) const {
    set(busId, "infiniband/" + device + "/ports/1/" + file, text);
  }
  TwoSocketServer server_;
};

TEST_F(ChecksTest, AMachineInOrderHasNoFindings) {
  const std::vector<Finding> findings = check();
  for (const Finding& each : findings) ADD_FAILURE() << describe(each);
}

TEST_F(ChecksTest, ALinkNarrowerThanItsEndsCan) {
  set("0000:1b:00.0", "current_link_width", "8");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "pci-link", "0000:1b:00.0"),
                                         saying("32 GT/s x8; both its ends can do 32 GT/s x16"))));
  set("0000:18:02.0", "max_link_width", "8");
  EXPECT_THAT(check(), IsEmpty()) << "the slot has no more";
}

TEST_F(ChecksTest, ASwitchWhoseOwnLinkIsSlow) {
  set("0000:17:00.0", "current_link_speed", "8.0 GT/s PCIe");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "pci-link", "0000:17:00.0"),
                                         saying("PCI bridge"), saying("8 GT/s x16; both"))));
}

TEST_F(ChecksTest, AnAcceleratorAtRestMaySlowItsLinkDown) {
  set("0000:19:00.0", "current_link_speed", "2.5 GT/s PCIe");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::note, "pci-link", "0000:19:00.0"),
                                         Field(&Finding::remedy, HasSubstr("while the accelerator works")))));
  set("0000:19:00.0", "current_link_width", "4");
  EXPECT_THAT(check(), ElementsAre(finding(Severity::warning, "pci-link", "0000:19:00.0")))
      << "lanes do not rest";
}

TEST_F(ChecksTest, AnAcceleratorWithoutAnAdapterNear) {
  server_.remove("/sys/bus/pci/devices/0000:9b:00.0");
  server_.remove("/sys/class/infiniband/mlx5_1");
  server_.remove("/sys/class/net/ib1");
  EXPECT_THAT(check(),
              ElementsAre(AllOf(finding(Severity::warning, "nic-far", "0000:99:00.0"),
                                saying("0000:1b:00.0, is only across NUMA nodes; other accelerators of this"
                                       " host have one below the same PCI switch")),
                          finding(Severity::warning, "nic-far", "0000:9a:00.0")));
}

TEST_F(ChecksTest, TheAdapterThatManagesTheMachineIsNoneForData) {
  server_.remove("/sys/bus/pci/devices/0000:1b:00.0");
  server_.remove("/sys/class/infiniband/mlx5_0");
  server_.remove("/sys/class/net/ib0");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "nic-far", "0000:19:00.0"),
                                         saying("its nearest network adapter, 0000:9b:00.0, is only across")),
                                   finding(Severity::warning, "nic-far", "0000:1a:00.0")))
      << "eth0 is on the same NUMA node, but has 1 Gbit/s";
}

TEST_F(ChecksTest, APortThatIsDown) {
  setPort("0000:9b:00.0", "mlx5_1", "state", "1: DOWN");
  EXPECT_THAT(check(), Contains(AllOf(finding(Severity::warning, "port-down", "mlx5_1"),
                                      saying("is down; other ports of adapters of the same model are up"))));
  setPort("0000:9b:00.0", "mlx5_1", "state", "2: INIT");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "port-down", "mlx5_1"),
                                         Field(&Finding::remedy, HasSubstr("subnet manager")))));
}

TEST_F(ChecksTest, AnInterfaceThatIsDownMayBeMeantTo) {
  set("0000:01:00.0", "net/eth0/operstate", "down");
  EXPECT_THAT(check(), ElementsAre(finding(Severity::note, "port-down", "eth0")));
  server_.pci("0000:00:1c.0/0000:01:00.1",
              TwoSocketServer::endpoint(0, "0x020000", "0x8086", "0x1521", "5.0 GT/s PCIe", "4"));
  server_.net("0000:01:00.1", "eth1", {{"operstate", "up"}, {"speed", "1000"}, {"mtu", "1500"}, {"type", "1"}});
  EXPECT_THAT(check(), ElementsAre(finding(Severity::warning, "port-down", "eth0")));
}

TEST_F(ChecksTest, APortSlowerThanItsLike) {
  setPort("0000:9b:00.0", "mlx5_1", "rate", "200 Gb/sec (2X NDR)");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "port-rate", "mlx5_1"),
                                         saying("200 Gbit/s; mlx5_0, of the same model, can do 400"))));
}

TEST_F(ChecksTest, PortsOfDifferentMtu) {
  set("0000:9b:00.0", "net/ib1/mtu", "2044");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "port-mtu", "mlx5_1"),
                                         saying("MTU 2044; mlx5_0, of the same model, has 4092"),
                                         Field(&Finding::remedy, HasSubstr("ip link set dev ib1 mtu 4092")))));
}

class AcsTest : public ChecksTest {
 protected:
  void setAcs(const std::string& busId, unsigned control) const {
    server_.write(server_.folderOf(busId) + "config",
                  TwoSocketServer::config("0x060400", "0x1000", "0xc030", control));
  }
};

TEST_F(AcsTest, AcsThatSendsPeersUpToTheCpu) {
  setAcs("0000:18:01.0", 0x1d);  // what Linux sets with an IOMMU
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "acs", "0000:17:00.0"),
                                         saying("on 1 ports of this PCI switch (0000:18:01.0, ...)"))));
  setAcs("0000:18:01.0", 0x01);
  EXPECT_THAT(check(), IsEmpty()) << "source validation alone redirects nothing";
}

TEST_F(AcsTest, AcsOnARootPortIsNobodysWay) {
  setAcs("0000:16:01.0", 0x1d);
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(AcsTest, AConfigurationSpaceThatOnlyRootMayReadIsUnknown) {
  const std::string whole = TwoSocketServer::config("0x060400", "0x1000", "0xc030", 0x1d);
  server_.write(server_.folderOf("0000:18:01.0") + "config", whole.substr(0, 64));
  EXPECT_THAT(check(), ElementsAre(finding(Severity::note, "acs-unknown", "0000:17:00.0")));
}

TEST_F(AcsTest, ACapabilityListThatRunsInCirclesEnds) {
  std::string bytes = TwoSocketServer::config("0x060400", "0x1000", "0xc030", 0);
  bytes[0x140] = 1, bytes[0x142] = 1, bytes[0x143] = 0x10;  // not ACS, and back to 0x100
  server_.write(server_.folderOf("0000:18:01.0") + "config", bytes);
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(ChecksTest, AnIommuThatTranslates) {
  const std::string group = server_.folderOf("0000:19:00.0") + "iommu_group/";
  server_.write(group + "type", "DMA-FQ\n");
  EXPECT_THAT(check(),
              ElementsAre(AllOf(finding(Severity::warning, "iommu", "0000:19:00.0"), saying("type DMA-FQ"))))
      << "whatever the kernel was started with";
  server_.write(group + "type", "identity\n");
  server_.write("/proc/cmdline", "intel_iommu=on\n");
  EXPECT_THAT(check(), IsEmpty());
  server_.write(group + "type", "");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "iommu", "0000:19:00.0"),
                                         saying("intel_iommu=on and without iommu=pt"))))
      << "an older kernel";
  server_.write("/proc/cmdline", "intel_iommu=on iommu=pt\n");
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(ChecksTest, WithoutAcceleratorsPeersDoNotMatter) {
  for (const char* gpu : {"0000:19:00.0", "0000:1a:00.0", "0000:99:00.0", "0000:9a:00.0"}) {
    server_.write(server_.folderOf(gpu) + "iommu_group/type", "DMA\n");
    set(gpu, "class", "0x010802");
  }
  server_.write(server_.folderOf("0000:18:01.0") + "config",
                TwoSocketServer::config("0x060400", "0x1000", "0xc030", 0x1d));
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(ChecksTest, MemoryThatMayNotBeLocked) {
  const std::string head = "Limit                     Soft Limit           Hard Limit           Units     \n";
  server_.write("/proc/self/limits",
                head + "Max locked memory         8388608              8388608              bytes\n");
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::error, "memlock", ""), saying("may lock 8 MiB"))));
  server_.write("/proc/self/limits",
                head + "Max locked memory         8589934592           8589934592           bytes\n");
  EXPECT_THAT(check(), ElementsAre(finding(Severity::warning, "memlock", "")));
  server_.write("/proc/self/status", "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-7\n");
  EXPECT_THAT(check(), IsEmpty()) << "CAP_IPC_LOCK";
  server_.write("/proc/self/status", "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-7\n");
  server_.remove("/sys/class/infiniband");
  EXPECT_THAT(check(), Not(Contains(Field(&Finding::id, "memlock")))) << "no RDMA, nothing to lock";
}

TEST_F(ChecksTest, ALimitThatCannotBeReadIsNotTakenForZero) {
  server_.remove("/proc/self/limits");
  EXPECT_THAT(check(), IsEmpty());
}

TEST_F(ChecksTest, PtraceForEverybodyForbidden) {
  server_.write("/proc/sys/kernel/yama/ptrace_scope", "2\n");
  EXPECT_THAT(check(), ElementsAre(finding(Severity::note, "ptrace-scope", "")));
}

TEST_F(ChecksTest, BoundToANodeWithoutAnyOfTheDevices) {
  server_.write("/proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t4-5\n");
  EXPECT_THAT(check(), IsEmpty()) << "half of the accelerators are near: this rank will use those";
  for (const char* gpu : {"0000:99:00.0", "0000:9a:00.0"})
    server_.remove(std::string("/sys/bus/pci/devices/") + gpu);
  EXPECT_THAT(check(), ElementsAre(AllOf(finding(Severity::warning, "affinity", "cpu0"),
                                         saying("host's accelerators"))));
  server_.remove("/sys/bus/pci/devices/0000:9b:00.0");
  server_.remove("/sys/class/infiniband/mlx5_1");
  server_.remove("/sys/class/net/ib1");
  EXPECT_THAT(check(), ElementsAre(saying("host's accelerators"), saying("host's network adapters")));
}

TEST_F(ChecksTest, TheWorstComesFirst) {
  set("0000:19:00.0", "current_link_speed", "2.5 GT/s PCIe");
  set("0000:1b:00.0", "current_link_width", "8");
  server_.write("/proc/self/limits",
                "Max locked memory         65536                65536                bytes\n");
  EXPECT_THAT(check(), ElementsAre(Field(&Finding::severity, Severity::error),
                                   Field(&Finding::severity, Severity::warning),
                                   Field(&Finding::severity, Severity::note)));
}

TEST(Checks, SharedMemoryOfAContainersDefaultSize) {
  // The size of a file system cannot be made up below a root, so this is what a container sees of its own.
  const Host host = probeHost();
  const HostSummary summary = readHost();
  const bool small = summary.shmBytes > 0 && summary.shmBytes <= 64U << 20 && summary.memoryBytes > 1U << 30;
  const std::vector<Finding> findings = checkHost(host);
  const bool found =
      std::any_of(findings.begin(), findings.end(), [](const Finding& each) { return each.id == "shm-size"; });
  EXPECT_EQ(found, small) << summary.shmBytes;
}

TEST(Checks, ThisMachine) {
  for (const Finding& each : checkHost(probeHost())) {
    std::printf("%s\n", describe(each).c_str());
    EXPECT_FALSE(each.evidence.empty() || each.consequence.empty() || each.remedy.empty()) << each.id;
  }
}

TEST(Checks, AreDescribedInALine) {
  const Finding finding{Severity::warning, "pci-link", "0000:3b:00.0", "It is slow", "It costs", "Repair it"};
  EXPECT_EQ(describe(finding), "warning pci-link 0000:3b:00.0: It is slow. It costs. Repair it.");
}

}  // namespace
}  // namespace eccl::topology
