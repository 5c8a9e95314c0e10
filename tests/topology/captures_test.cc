// Real machines, captured by hwloc's gatherer (see docs/probing.md). The captures are not part of this
// repository: the tests look for them in the folder that ECCL_TESTS_CAPTURES names, and are skipped without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "topology/checks/checks.h"
#include "topology/machine_tree.h"
#include "topology/probe/probe_hwloc.h"

namespace eccl::topology {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string capturesFolder() {
  const char* told = std::getenv("ECCL_TESTS_CAPTURES");
  return told != nullptr ? told : "";
}

class CapturesTest : public ::testing::Test {
 protected:
  /// Unpacks a capture; its root is `inner` in it. False, and the test skipped, if there is none.
  bool unpack(const std::string& name, const std::string& inner) {
    const std::string archive = capturesFolder() + "/" + name + ".tar.bz2";
    if (!fs::exists(archive)) return false;
    const std::string command = "tar -xjf '" + archive + "' -C '" + folder_.root() + "'";
    if (std::system(command.c_str()) != 0) return false;
    root_ = folder_.root() + "/" + inner;
    return fs::exists(root_);
  }
  Host probe(bool hwloc) const {
    ProbeSources sources{.root = root_};
    if (hwloc) sources.structure = hwlocStructure;
    Host host = probeHost(sources);
    EXPECT_TRUE(validate(host).ok()) << validate(host).message();
    // Of a real machine anything may be true, but nothing may be half said.
    for (const Finding& finding : checkHost(host, {root_})) {
      EXPECT_FALSE(finding.evidence.empty() || finding.remedy.empty()) << finding.id;
    }
    return host;
  }
  static std::string parentOf(const Host& host, const std::string& name) {
    const int device = host.find(name);
    if (device == Device::kNone) return "(not there)";
    const int parent = host.devices[device].parent;
    return parent == Device::kNone ? "" : host.devices[parent].name;
  }
  static std::vector<std::string> namesOf(const Host& host, DeviceKind kind) {
    std::vector<std::string> names;
    for (int i : host.all(kind)) names.push_back(host.devices[i].name);
    return names;
  }

  MachineTree folder_;
  std::string root_;
};

#define UNPACK(name, inner) \
  if (!unpack(name, inner)) GTEST_SKIP() << "no capture " << name << " in " << capturesFolder()

TEST_F(CapturesTest, SandyBridgeWithConnectX3) {
  UNPACK("32em64t-2n8c+dax+nvme+mic+dimms", "32em64t-2n8c+1mic");
  for (const bool hwloc : {false, true}) {
    const Host host = probe(hwloc);
    EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
    EXPECT_THAT(host.devices[1].cpu->cores, ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
    EXPECT_EQ(host.devices[0].cpu->model, 45);
    EXPECT_THAT(namesOf(host, DeviceKind::nic), ElementsAre("0000:02:00.0", "0000:02:00.3", "0000:82:00.0"));
    EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("mlx4_0", "eth0", "eth1"));
    EXPECT_EQ(parentOf(host, "0000:02:00.0"), "cpu0");
    EXPECT_EQ(parentOf(host, "0000:82:00.0"), "cpu1");
    EXPECT_THAT(namesOf(host, DeviceKind::accelerator), ElementsAre())
        << "of displays it has a service processor's";
    const PortFacts port = *host.devices[host.find("mlx4_0")].port;
    EXPECT_EQ(port.megabits, 56000);
    EXPECT_EQ(port.state, "up");
    EXPECT_EQ(port.layer, "InfiniBand");
    EXPECT_EQ(port.guid, 0x0002c90300f9bfa0U);
    EXPECT_EQ(port.interface, "ib0");
    EXPECT_EQ(port.mtu, 2044);
    EXPECT_EQ(host.devices[host.find("eth1")].port->state, "down");
    EXPECT_THAT(host.unread, Contains(HasSubstr("br0, eth0.1015, mic0")));
    EXPECT_THAT(host.unread, Contains(HasSubstr("scif0")));
  }
}

TEST_F(CapturesTest, WestmereWhoseFirmwareTellsFewNodes) {
  UNPACK("40intel64-2g2n4c+pcilocality", "40intel64-2g2n4c+pci");
  const Host host = probe(false);
  EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu1", "cpu2", "cpu3"));
  EXPECT_THAT(host.devices[2].cpu->cores, ElementsAre(2, 6, 10, 14, 18, 22, 26, 30, 34, 38));
  EXPECT_THAT(namesOf(host, DeviceKind::port), ElementsAre("qib0", "eth0", "eth1", "eth2", "eth3"));
  EXPECT_EQ(parentOf(host, "0000:43:00.0"), "cpu2") << "of this one it does";
  EXPECT_EQ(parentOf(host, "0000:02:00.0"), "");
  EXPECT_THAT(host.unread, Contains(HasSubstr("the firmware does not tell which NUMA node")));
  EXPECT_EQ(host.devices[host.find("qib0")].port->megabits, 40000);
  EXPECT_EQ(host.devices[host.find("qib0")].port->guid, 0x001175000077cfc8U);
}

TEST_F(CapturesTest, SkylakeWithPciSwitches) {
  UNPACK("32intel64-2p8co2t+8ve", "32intel64-2p8co2t+8ve");
  for (const bool hwloc : {false, true}) {
    const Host host = probe(hwloc);
    EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu1"));
    EXPECT_EQ(host.devices[0].cpu->cores.size(), 16U);
    EXPECT_EQ(host.devices[0].cpu->cores[8], 16);
    EXPECT_THAT(namesOf(host, DeviceKind::nic),
                ElementsAre("0000:1a:00.0", "0000:3e:00.0", "0000:60:00.0", "0000:60:00.1"));
    EXPECT_THAT(namesOf(host, DeviceKind::bridge), ElementsAre("0000:18:00.0", "0000:3b:00.0", "0000:5e:00.0"))
        << "two PLX switches and the chip set's, whose lower port was not captured";
    EXPECT_EQ(parentOf(host, "0000:1a:00.0"), "0000:18:00.0");
    EXPECT_EQ(parentOf(host, "0000:18:00.0"), "cpu0");
    const PciFacts link = *host.devices[host.find("0000:1a:00.0")].pci;
    EXPECT_EQ(link.gigatransfers, 8);
    EXPECT_EQ(link.ablestGigatransfers, 8);
    EXPECT_EQ(link.width, 16);
    EXPECT_EQ(link.ablestWidth, 16);
    EXPECT_EQ(link.vendor, 0x15b3U);
    EXPECT_THAT(host.unread, Contains(HasSubstr("0000:1a:00.0, 0000:3e:00.0: network adapters without a port")))
        << "the capture has no InfiniBand devices";
  }
}

TEST_F(CapturesTest, Power9WithGpuMemoryAsNodes) {
  UNPACK("nvidiagpunumanodes", "nvidiagpunumanodes");
  const Host host = probe(false);
  EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0", "cpu8")) << "252 to 255 are GPUs' memory";
  EXPECT_EQ(host.devices[0].cpu->arch, "ppc64");
  EXPECT_EQ(host.devices[0].cpu->cores.size(), 88U);
  EXPECT_THAT(host.unread, Contains(HasSubstr("6 devices (0004:05:00.0, ...) are no links into /sys/devices")));
}

TEST_F(CapturesTest, AVirtualMachineWithDomainsOf32Bits) {
  UNPACK("2pa-pcidomain32bits", "2pa-pcidomain32bits");
  for (const bool hwloc : {false, true}) {
    const Host host = probe(hwloc);
    EXPECT_THAT(namesOf(host, DeviceKind::cpu), ElementsAre("cpu0"));
    EXPECT_THAT(host.devices[0].cpu->cores, ElementsAre(0, 1));
    EXPECT_THAT(namesOf(host, DeviceKind::nic), ElementsAre("0000:00:03.0"));
    EXPECT_EQ(parentOf(host, "ens3"), "0000:00:03.0") << "by way of virtio0";
    EXPECT_EQ(parentOf(host, "0000:00:03.0"), "cpu0") << "there is no other";
    EXPECT_EQ(host.devices[host.find("ens3")].port->megabits, std::nullopt) << "-1 is no speed";
    EXPECT_THAT(host.unread, Contains(HasSubstr("0000:00:03.0: the speed or width")));
  }
}

}  // namespace
}  // namespace eccl::topology
