#include "topology/probe/probe_hwloc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "topology/machine_tree.h"

namespace eccl::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> namesOf(const Host& host, DeviceKind kind) {
  std::vector<std::string> names;
  for (int i : host.all(kind)) names.push_back(host.devices[i].name);
  return names;
}

std::string parentOf(const Host& host, const std::string& name) {
  const int device = host.find(name);
  if (device == Device::kNone) return "(not there)";
  const int parent = host.devices[device].parent;
  return parent == Device::kNone ? "" : host.devices[parent].name;
}

const Device& at(const Host& host, const std::string& name) {
  static const Device none;
  const int device = host.find(name);
  EXPECT_NE(device, Device::kNone) << name;
  return device == Device::kNone ? none : host.devices[device];
}

/// The same tree by hwloc (true) and by the kernel's files alone.
class ProbeTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !haveHwloc()) GTEST_SKIP() << "built without hwloc";
  }
  Host probe() const {
    ProbeSources sources;
    sources.root = server_.root();
    if (GetParam()) sources.structure = hwlocStructure;
    Host host = probeHost(sources);
    EXPECT_TRUE(validate(host).ok()) << validate(host).message();
    return host;
  }
  TwoSocketServer server_;
};
INSTANTIATE_TEST_SUITE_P(By, ProbeTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Hwloc" : "Files"; });

TEST_P(ProbeTest, ReadsAServer) {
  const Host host = probe();
  EXPECT_THAT(host.unread, IsEmpty());
  EXPECT_EQ(host.name, "node7");
  EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
  const CpuFacts& cpu = *at(host, "cpu1").cpu;
  EXPECT_THAT(cpu.cores, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(cpu.arch, "x86_64");
  EXPECT_EQ(cpu.vendor, "GenuineIntel");
  EXPECT_EQ(cpu.family, 6);
  EXPECT_EQ(cpu.model, 143);
  EXPECT_THAT(namesOf(host, DeviceKind::accelerator),
              ElementsAre("0000:19:00.0", "0000:1a:00.0", "0000:99:00.0", "0000:9a:00.0"));
  EXPECT_THAT(namesOf(host, DeviceKind::nic), ElementsAre("0000:01:00.0", "0000:1b:00.0", "0000:9b:00.0"));
  EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("mlx5_0", "mlx5_1", "eth0"));
  EXPECT_THAT(namesOf(host, DeviceKind::other), IsEmpty()) << "what carries no collective's data is left out";
  EXPECT_EQ(host.fabric.size(), 0U);
}

TEST_P(ProbeTest, ASwitchIsOneDeviceAndRootPortsAreNone) {
  const Host host = probe();
  EXPECT_THAT(namesOf(host, DeviceKind::bridge), ElementsAre("0000:17:00.0", "0000:97:00.0"));
  EXPECT_EQ(parentOf(host, "0000:17:00.0"), "cpu0");
  EXPECT_EQ(parentOf(host, "0000:97:00.0"), "cpu1");
  EXPECT_EQ(parentOf(host, "0000:9a:00.0"), "0000:97:00.0");
  EXPECT_EQ(parentOf(host, "0000:9b:00.0"), "0000:97:00.0");
  EXPECT_EQ(parentOf(host, "mlx5_1"), "0000:9b:00.0");
  EXPECT_EQ(parentOf(host, "0000:01:00.0"), "cpu0");
}

TEST_P(ProbeTest, ASwitchBelowASwitchIsAnother) {
  const std::string lower = "0000:16:01.0/0000:17:00.0/0000:18:03.0";
  server_.pci(lower, TwoSocketServer::port(0, "0x1000"));
  server_.pci(lower + "/0000:20:00.0", TwoSocketServer::port(0, "0x1000"));
  server_.pci(lower + "/0000:20:00.0/0000:21:00.0", TwoSocketServer::port(0, "0x1000"));
  server_.pci(lower + "/0000:20:00.0/0000:21:00.0/0000:22:00.0",
              TwoSocketServer::endpoint(0, "0x120000", "0x1002", "0x74a1", "32.0 GT/s PCIe", "16"));
  const Host host = probe();
  EXPECT_EQ(parentOf(host, "0000:22:00.0"), "0000:20:00.0");
  EXPECT_EQ(parentOf(host, "0000:20:00.0"), "0000:17:00.0");
  EXPECT_EQ(host.find("0000:21:00.0"), Device::kNone) << "a switch's lower port";
  EXPECT_EQ(at(host, "0000:22:00.0").kind, DeviceKind::accelerator) << "a processing accelerator, class 0x12";
}

TEST_P(ProbeTest, LinksDoWhatBothEndsCan) {
  const std::string gpu = server_.folderOf("0000:19:00.0"), above = server_.folderOf("0000:18:00.0");
  server_.write(gpu + "current_link_speed", "8.0 GT/s PCIe\n");
  server_.write(gpu + "current_link_width", "4\n");
  server_.write(above + "max_link_speed", "16.0 GT/s PCIe\n");
  server_.write(above + "max_link_width", "8\n");
  const PciFacts facts = *at(probe(), "0000:19:00.0").pci;
  EXPECT_EQ(facts.busId, "0000:19:00.0");
  EXPECT_EQ(facts.classCode, 0x030200U);
  EXPECT_EQ(facts.vendor, 0x10deU);
  EXPECT_EQ(facts.device, 0x2330U);
  EXPECT_EQ(facts.subsystemVendor, 0x10deU);
  EXPECT_EQ(facts.subsystemDevice, 1U);
  EXPECT_EQ(facts.gigatransfers, 8);
  EXPECT_EQ(facts.width, 4);
  EXPECT_EQ(facts.ablestGigatransfers, 16) << "the card can do 32, the slot cannot";
  EXPECT_EQ(facts.ablestWidth, 8);
}

TEST_P(ProbeTest, LinksOfUnknownSpeedAreTold) {
  const std::string gpu = server_.folderOf("0000:19:00.0");
  server_.write(gpu + "current_link_speed", "Unknown\n");
  server_.write(gpu + "max_link_width", "255\n");
  const Host host = probe();
  EXPECT_EQ(at(host, "0000:19:00.0").pci->gigatransfers, 0);
  EXPECT_EQ(at(host, "0000:19:00.0").pci->ablestWidth, 0);
  EXPECT_THAT(host.unread,
              ElementsAre(HasSubstr("0000:19:00.0: the speed or width of their PCI links is not told")));
}

TEST_P(ProbeTest, OnePortForAnInfiniBandDeviceAndItsInterface) {
  const Host host = probe();
  const PortFacts ib = *at(host, "mlx5_0").port;
  EXPECT_EQ(ib.interface, "ib0");
  EXPECT_EQ(ib.number, 1);
  EXPECT_EQ(ib.megabits, 400000);
  EXPECT_EQ(ib.guid, 0x0002c90300050a12U);
  EXPECT_EQ(ib.state, "up");
  EXPECT_EQ(ib.layer, "InfiniBand");
  EXPECT_EQ(ib.mtu, 4092);
  EXPECT_EQ(ib.direct, std::nullopt);
  const PortFacts ethernet = *at(host, "eth0").port;
  EXPECT_EQ(ethernet.interface, "eth0");
  EXPECT_EQ(ethernet.megabits, 1000);
  EXPECT_EQ(ethernet.mtu, 1500);
  EXPECT_EQ(ethernet.state, "up");
  EXPECT_EQ(ethernet.layer, "Ethernet");
}

TEST_P(ProbeTest, PortsOfOneAdapterAreNumbered) {
  server_.write(server_.folderOf("0000:1b:00.0") + "infiniband/mlx5_0/ports/2/state", "2: INIT\n");
  server_.write(server_.folderOf("0000:1b:00.0") + "infiniband/mlx5_0/ports/2/link_layer", "Ethernet\n");
  server_.write(server_.folderOf("0000:1b:00.0") + "infiniband/mlx5_0/ports/2/rate", "2.5 Gb/sec (1X SDR)\n");
  server_.net("0000:1b:00.0", "eth2",
              {{"operstate", "down"}, {"mtu", "9000"}, {"dev_port", "1"}, {"type", "1"}});
  server_.write("/sys/module/nvidia_peermem/refcnt", "0\n");
  const Host host = probe();
  EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("mlx5_0:1", "mlx5_0:2", "mlx5_1", "eth0"));
  EXPECT_EQ(at(host, "mlx5_0:1").port->interface, "ib0");
  EXPECT_EQ(at(host, "mlx5_0:2").port->interface, "eth2");
  EXPECT_EQ(at(host, "mlx5_0:2").port->state, "init");
  EXPECT_EQ(at(host, "mlx5_0:2").port->megabits, 2500);
  EXPECT_EQ(at(host, "mlx5_0:2").port->mtu, 9000);
  EXPECT_EQ(at(host, "mlx5_0:2").port->direct, true);
}

TEST_P(ProbeTest, InterfacesThatAreNoPortOfTheirOwnAreLeftOutAndTold) {
  server_.net("0000:01:00.0", "eth0_vf3",
              {{"operstate", "up"}, {"phys_port_name", "pf0vf3"}, {"dev_port", "0"}});
  server_.link("/sys/class/net/docker0", "../../devices/virtual/net/docker0");
  server_.write("/sys/devices/virtual/net/docker0/operstate", "up\n");
  const Host host = probe();
  EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("mlx5_0", "mlx5_1", "eth0"));
  EXPECT_THAT(host.unread,
              ElementsAre(HasSubstr("no PCI device behind them (bridges, tunnels, the inner side of a"
                                    " container's network): docker0"),
                          HasSubstr("share a port with another interface: eth0_vf3")));
}

TEST_P(ProbeTest, VirtualFunctionsBesideTheirAdapterAreNoAdapters) {
  server_.pci("0000:00:1c.0/0000:01:10.0",
              TwoSocketServer::endpoint(0, "0x020000", "0x8086", "0x1520", "", ""));
  server_.link(server_.folderOf("0000:01:10.0") + "physfn", "../0000:01:00.0");
  server_.net("0000:01:10.0", "eth9", {{"operstate", "up"}});
  const Host host = probe();
  EXPECT_EQ(host.find("0000:01:10.0"), Device::kNone);
  EXPECT_EQ(host.find("eth9"), Device::kNone);
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("1 virtual functions left out")));
}

TEST_P(ProbeTest, DisplaysAreNoAccelerators) {
  server_.pci("0000:00:1c.1", TwoSocketServer::port(0, TwoSocketServer::kIntelPort));
  server_.pci("0000:00:1c.1/0000:02:00.0",
              TwoSocketServer::endpoint(0, "0x030000", "0x1a03", "0x2000", "", ""));
  server_.pci("0000:00:02.0", TwoSocketServer::endpoint(0, "0x030000", "0x8086", "0x3e9b", "", ""));
  const size_t before = namesOf(probe(), DeviceKind::accelerator).size();
  EXPECT_EQ(before, 4U) << "neither the service processor's picture nor the CPU's own graphics";
  server_.write(server_.folderOf("0000:02:00.0") + "vendor", "0x10de\n");
  server_.pci("0000:00:1c.2", TwoSocketServer::port(0, TwoSocketServer::kIntelPort));
  server_.pci("0000:00:1c.2/0000:03:00.0",
              TwoSocketServer::endpoint(0, "0x038000", "0x8086", "0x0bd5", "", ""));
  EXPECT_THAT(namesOf(probe(), DeviceKind::accelerator),
              ::testing::IsSupersetOf({"0000:02:00.0", "0000:03:00.0"}))
      << "a graphics card, and Intel's below a bridge";
}

TEST_P(ProbeTest, WhereNobodySaysWhichNodeItIsToldAndNotGuessed) {
  for (const char* busId : {"0000:00:1c.0", "0000:01:00.0", "0000:00:1f.0"}) {
    server_.write(server_.folderOf(busId) + "numa_node", "-1\n");
    server_.write(server_.folderOf(busId) + "local_cpus", "000000ff\n");
  }
  const Host host = probe();
  EXPECT_EQ(parentOf(host, "0000:01:00.0"), "");
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("0000:01:00.0: the firmware does not tell which NUMA node")));
}

TEST_P(ProbeTest, NodesWithoutCoresAreNoPlace) {
  server_.node(2, "");
  server_.write("/sys/devices/system/node/node2/cpumap", "00000000\n");
  server_.write("/sys/devices/system/node/node2/meminfo", "Node 2 MemTotal: 1024 kB\n");
  server_.write("/sys/devices/system/node/online", "0-2\n");
  EXPECT_THAT(namesOf(probe(), DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
}

TEST_P(ProbeTest, HiddenPciIsTold) {
  server_.remove("/sys/bus/pci");
  server_.remove("/sys/class/net");
  server_.remove("/proc/cpuinfo");
  const Host host = probe();
  EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
  EXPECT_EQ(host.devices.size(), 2U);
  EXPECT_THAT(host.unread, Contains(HasSubstr("/sys/bus/pci/devices: is not there")));
  EXPECT_THAT(host.unread, Contains(HasSubstr("/sys/class/net: No such file")));
  EXPECT_THAT(host.unread, Contains(HasSubstr("/proc/cpuinfo: absent")));
}

TEST_P(ProbeTest, AnAdapterWithoutPortsIsTold) {
  server_.remove("/sys/class/net/eth0");
  const Host host = probe();
  EXPECT_EQ(parentOf(host, "0000:01:00.0"), "cpu0");
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("0000:01:00.0: network adapters without a port")));
}

TEST(Probe, HwlocAndTheFilesAgree) {
  if (!haveHwloc()) GTEST_SKIP() << "built without hwloc";
  const TwoSocketServer server;
  const Host byHwloc = probeHost({.root = server.root(), .structure = hwlocStructure});
  const Host byFiles = probeHost({.root = server.root()});
  EXPECT_EQ(byHwloc, byFiles);
  EXPECT_GT(byFiles.devices.size(), 10U);
}

TEST(Probe, HwlocAndTheFilesAgreeOnThisMachine) {
  if (!haveHwloc()) GTEST_SKIP() << "built without hwloc";
  EXPECT_EQ(probeHost({.structure = hwlocStructure}), probeHost());
}

TEST(Probe, AnEmptyRootGivesAHostThatSaysWhatIsMissing) {
  const MachineTree nothing;
  for (const bool hwloc : {false, true}) {
    ProbeSources sources{.root = nothing.root()};
    if (hwloc) sources.structure = hwlocStructure;
    const Host host = probeHost(sources);
    EXPECT_TRUE(validate(host).ok()) << validate(host).message();
    EXPECT_THAT(host.unread, Contains(HasSubstr("/sys/bus/pci/devices")));
    EXPECT_THAT(host.unread, Contains(HasSubstr("no NUMA node to be seen")));
  }
}

TEST(Probe, WithoutHwlocItSaysSoAndReadsTheFiles) {
  if (haveHwloc()) GTEST_SKIP() << "built with hwloc";
  const TwoSocketServer server;
  const Host host = probeHost({.root = server.root(), .structure = hwlocStructure});
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("hwloc: this program was built without it")));
  EXPECT_EQ(host.all(DeviceKind::accelerator).size(), 4U);
}

TEST(Probe, FoldersInsteadOfLinksLoseTheShapeAndSaySo) {
  MachineTree tree;
  tree.node(0, "0-1");
  tree.write("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  const Host host = probeHost({.root = tree.root()});
  EXPECT_EQ(parentOf(host, "0000:01:00.0"), "cpu0");
  EXPECT_THAT(host.unread, Contains(HasSubstr("1 devices (0000:01:00.0, ...) are no links into /sys/devices")));
}

TEST(Probe, FamiliesAreWrittenAsNcclDoes) {
  MachineTree tree;
  tree.write("/proc/cpuinfo",
             "vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\nmodel name\t: EPYC\n");
  Host host = probeHost({.root = tree.root()});
  EXPECT_EQ(host.devices[0].cpu->family, 143);
  EXPECT_EQ(host.devices[0].cpu->model, 49);
  tree.write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  host = probeHost({.root = tree.root()});
  EXPECT_EQ(host.devices[0].cpu->arch, "arm64");
  EXPECT_EQ(host.devices[0].cpu->family, std::nullopt);
}

TEST(Probe, LeavesTheEnvironmentAsItWas) {
  if (!haveHwloc()) GTEST_SKIP() << "built without hwloc";
  const TwoSocketServer server;
  ::setenv("ECCL_TESTS_BEFORE", "1", 1);
  ::unsetenv("HWLOC_FSROOT");
  ::setenv("HWLOC_PLUGINS_PATH", "/tests/own", 1);
  char** const before = environ;
  probeHost({.root = server.root(), .structure = hwlocStructure});
  EXPECT_EQ(environ, before);
  EXPECT_EQ(std::getenv("HWLOC_FSROOT"), nullptr);
  EXPECT_STREQ(std::getenv("HWLOC_PLUGINS_PATH"), "/tests/own");
  ::unsetenv("HWLOC_PLUGINS_PATH");
  ::unsetenv("ECCL_TESTS_BEFORE");
}

TEST(Probe, ThreadsMayProbeDifferentMachinesAtOnce) {
  const TwoSocketServer server;
  MachineTree small;
  small.node(0, "0-1");
  const auto probe = [](const MachineTree& tree) {
    return probeHost({.root = tree.root(), .structure = hwlocStructure});
  };
  const Host one = probe(server), other = probe(small);
  ::setenv("ECCL_TESTS_PROBE", "here", 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 5; ++turn) {
        EXPECT_EQ(i % 2 == 0 ? probe(server) : probe(small), i % 2 == 0 ? one : other);
        EXPECT_STREQ(std::getenv("ECCL_TESTS_PROBE"), "here");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::unsetenv("ECCL_TESTS_PROBE");
}

TEST(Probe, LoadsNoForeignLibraries) {
  if (!haveHwloc()) GTEST_SKIP() << "built without hwloc";
  // Counted, as hwloc unloads its plugins, and what came with them, when it is done.
  const auto loads = [] {
    unsigned long long count = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* out) {
          *static_cast<unsigned long long*>(out) = info->dlpi_adds;
          return 1;
        },
        &count);
    return count;
  };
  const TwoSocketServer server;
  const unsigned long long before = loads();
  probeHost({.root = server.root(), .structure = hwlocStructure});
  EXPECT_EQ(loads(), before);
}

TEST(Probe, ThisMachine) {
  const auto start = std::chrono::steady_clock::now();
  const Host host = probeHost();
  const double took =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  EXPECT_TRUE(validate(host).ok()) << validate(host).message();
  EXPECT_FALSE(host.all(DeviceKind::cpu).empty());
  std::printf("%.1f ms\n", took);
  for (const Device& device : host.devices) {
    std::printf("%-18s %-15s below %s\n", nameOf(device.kind), device.name.c_str(),
                device.parent == Device::kNone ? "-" : host.devices[device.parent].name.c_str());
  }
  for (const std::string& what : host.unread) std::printf("unread: %s\n", what.c_str());
  // Every network interface is a port, or it is said why it is none.
  for (const auto& entry : std::filesystem::directory_iterator("/sys/class/net")) {
    const std::string name = entry.path().filename();
    if (name == "lo" || name == "bonding_masters") continue;
    bool port = false;
    for (int i : host.all(DeviceKind::port)) port = port || host.devices[i].port->interface == name;
    if (!port) { EXPECT_THAT(host.unread, Contains(HasSubstr(name))); }
  }
}

TEST(Probe, ReadsAFileThatHwlocExported) {
  if (!haveHwloc()) GTEST_SKIP() << "built without hwloc";
  MachineTree tree;
  tree.write("/machine.xml", R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
    <info name="HostName" value="exported"/>
    <info name="Architecture" value="x86_64"/>
    <object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
      <info name="CPUVendor" value="AuthenticAMD"/>
      <info name="CPUFamilyNumber" value="23"/>
      <info name="CPUModelNumber" value="49"/>
      <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3" local_memory="1048576"/>
      <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4"/>
      <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
    </object>
    <object type="Bridge" gp_index="6" bridge_type="0-1" depth="0" bridge_pci="0000:[00-02]">
      <object type="Bridge" gp_index="7" bridge_type="1-1" depth="1" bridge_pci="0000:[01-01]" pci_busid="0000:00:01.0" pci_type="0604 [8086:3c02] [0000:0000] 07" pci_link_speed="7.876923">
        <object type="PCIDev" gp_index="8" pci_busid="0000:01:00.0" pci_type="0207 [15b3:1021] [15b3:0007] 00" pci_link_speed="7.876923">
          <object type="OSDev" gp_index="9" name="ib0" osdev_type="2"/>
          <object type="OSDev" gp_index="10" name="mlx5_0" osdev_type="3">
            <info name="NodeGUID" value="0002:c903:0005:0a12"/>
            <info name="Port1State" value="4"/>
          </object>
        </object>
      </object>
      <object type="PCIDev" gp_index="11" pci_busid="0000:00:03.0" pci_type="0200 [1af4:1000] [1af4:0001] 00" pci_link_speed="0.000000">
        <object type="OSDev" gp_index="12" name="eth0" osdev_type="2"/>
      </object>
    </object>
  </object>
</topology>
)");
  const Host host = probeHwlocXml(tree.root() + "/machine.xml");
  ASSERT_TRUE(validate(host).ok()) << validate(host).message();
  EXPECT_EQ(host.name, "exported");
  EXPECT_THAT(at(host, "cpu0").cpu->cores, ElementsAre(0, 1));
  EXPECT_EQ(at(host, "cpu0").cpu->family, 143);
  EXPECT_EQ(parentOf(host, "0000:01:00.0"), "cpu0");
  EXPECT_EQ(at(host, "0000:01:00.0").pci->device, 0x1021U);
  EXPECT_EQ(at(host, "mlx5_0").port->interface, "ib0");
  EXPECT_EQ(at(host, "mlx5_0").port->guid, 0x0002c90300050a12U);
  EXPECT_EQ(at(host, "mlx5_0").port->state, "up");
  EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("mlx5_0", "eth0"));
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("speed or width of their PCI links is not told")));
  tree.write("/machine.xml", "no topology");
  const Host broken = probeHwlocXml(tree.root() + "/machine.xml");
  EXPECT_TRUE(broken.devices.empty());
  EXPECT_THAT(broken.unread, ElementsAre(HasSubstr("machine.xml: hwloc_topology_")));
}

}  // namespace
}  // namespace eccl::topology
