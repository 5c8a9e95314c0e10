#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "topology/machine_tree.h"
#include "topology/probe/probe.h"

namespace eccl::topology {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The driver of tests/topology/fake_nvml.cc, over the GPUs of the tree: 19, 1a, 99 and 9a.
class NvmlTest : public ::testing::Test {
 protected:
  Host probe(const std::string& driver) {
    server_.write("/driver", driver);
    ::setenv("ECCL_TESTS_NVML", (server_.root() + "/driver").c_str(), 1);
    Host host = probeHost({.root = server_.root(), .nvml = ECCL_FAKE_NVML});
    EXPECT_TRUE(validate(host).ok()) << validate(host).message();
    return host;
  }
  /// "from to count" of each link, by name.
  static std::vector<std::string> linksOf(const Host& host) {
    std::vector<std::string> links;
    for (const FabricLink& link : host.fabric) {
      EXPECT_EQ(link.kind, FabricKind::nvLink);
      EXPECT_EQ(link.bandwidth, std::nullopt);
      links.push_back(host.devices[link.from].name + " " + host.devices[link.to].name + " " +
                      std::to_string(link.count));
    }
    return links;
  }
  const AcceleratorFacts& facts(const Host& host, const std::string& busId) {
    return *host.devices.at(static_cast<size_t>(host.find(busId))).accelerator;
  }

  TwoSocketServer server_;
  static constexpr const char* kGpus = "gpu 0 19 0 90\ngpu 0 1a 0 90\ngpu 0 99 0 90\ngpu 0 9a 0 90\n";
};

TEST_F(NvmlTest, NumbersGpusAndTellsTheirCapability) {
  const Host host = probe("gpu 0 9a 0 90\ngpu 0 19 0 86\ngpu 0 1a 0 90\ngpu 0 99 0 100\n");
  EXPECT_THAT(host.unread, IsEmpty());
  EXPECT_EQ(facts(host, "0000:9a:00.0").index, 0);
  EXPECT_EQ(facts(host, "0000:19:00.0").index, 1);
  EXPECT_EQ(facts(host, "0000:19:00.0").computeCapability, 86);
  EXPECT_EQ(facts(host, "0000:99:00.0").computeCapability, 100);
  EXPECT_THAT(host.fabric, IsEmpty());
}

TEST_F(NvmlTest, LinksBetweenGpusAreCountedInEachDirection) {
  // 0x1a is 26. Link 2 is down.
  const Host host = probe(std::string(kGpus) +
                          "link 0 0 1 0 26\nlink 0 1 1 0 26\nlink 0 2 0 0 26\n"
                          "link 1 0 1 0 25\nlink 1 1 1 0 25\n");
  EXPECT_THAT(linksOf(host), ElementsAre("0000:19:00.0 0000:1a:00.0 2", "0000:1a:00.0 0000:19:00.0 2"));
  EXPECT_THAT(host.unread, IsEmpty());
}

TEST_F(NvmlTest, SwitchesOnPciAreLinkedByThemselves) {
  server_.pci("0000:16:01.0/0000:17:00.0/0000:18:04.0", TwoSocketServer::port(0, "0x1000"));
  server_.pci("0000:16:01.0/0000:17:00.0/0000:18:04.0/0000:05:00.0",
              TwoSocketServer::endpoint(0, "0x068000", "0x10de", "0x22a3", "5.0 GT/s PCIe", "2"));
  const Host host = probe(std::string(kGpus) + "link 0 0 1 2 5\nlink 0 1 1 2 5\nlink 3 0 1 2 5\n");
  EXPECT_THAT(linksOf(host),
              ::testing::UnorderedElementsAre("0000:19:00.0 0000:05:00.0 2", "0000:05:00.0 0000:19:00.0 2",
                                              "0000:9a:00.0 0000:05:00.0 1", "0000:05:00.0 0000:9a:00.0 1"));
  EXPECT_EQ(host.devices[host.find("0000:05:00.0")].kind, DeviceKind::nvSwitch);
  EXPECT_THAT(host.unread, IsEmpty());
}

TEST_F(NvmlTest, SwitchesThatAreHiddenAreOne) {
  const Host host = probe(std::string(kGpus) + "link 0 0 1 2 -1\nlink 0 1 1 2 77\nlink 1 0 1 2 -1\n");
  EXPECT_THAT(linksOf(host), ElementsAre("0000:19:00.0 nvswitch0 2", "0000:1a:00.0 nvswitch0 1",
                                         "nvswitch0 0000:19:00.0 2", "nvswitch0 0000:1a:00.0 1"));
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("nvswitch0: stands for NVSwitches")));
}

TEST_F(NvmlTest, LinksToTheCpuEndThere) {
  const Host host = probe(std::string(kGpus) + "link 2 0 1 1 -1\nlink 2 1 1 1 -1\n");
  EXPECT_THAT(linksOf(host), ElementsAre("cpu1 0000:99:00.0 2", "0000:99:00.0 cpu1 2"));
}

TEST_F(NvmlTest, LinksThatLeadNowhereAreTold) {
  const Host host = probe(std::string(kGpus) + "link 0 4 1 255 -1\n");
  EXPECT_THAT(host.fabric, IsEmpty());
  EXPECT_THAT(host.unread,
              ElementsAre(HasSubstr("0000:19:00.0: NVLink 4 is up, but the driver does not tell")));
}

TEST_F(NvmlTest, GpusThatOnlyOneSideShowsAreTold) {
  const Host host = probe("gpu 0 19 0 90\ngpu 0 1a 0 90\ngpu 0 99 0 90\ngpu 1 5 0 90\nlink 0 0 1 0 154\n");
  EXPECT_THAT(host.unread,
              ElementsAre(HasSubstr("0001:05:00.0: a GPU to the driver that is not to be seen on PCI"),
                          HasSubstr("0000:9a:00.0: on PCI, but not among the GPUs")));
  const Device& hidden = host.devices[host.find("0001:05:00.0")];
  EXPECT_EQ(hidden.kind, DeviceKind::accelerator);
  EXPECT_EQ(hidden.parent, Device::kNone) << "there are two CPUs";
  EXPECT_EQ(hidden.pci->vendor, 0x10deU);
  EXPECT_EQ(hidden.pci->device, 0x2330U);
  EXPECT_EQ(hidden.accelerator->index, 3);
  EXPECT_THAT(linksOf(host), ElementsAre("0000:19:00.0 0000:9a:00.0 1", "0000:9a:00.0 0000:19:00.0 1"))
      << "a GPU that the driver does not show cannot tell its end";
}

TEST_F(NvmlTest, ADriverThatDoesNotAnswerIsTold) {
  const Host host = probe("init 9\n");
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("NVML: nvmlInit: Driver Not Loaded (9)")));
  EXPECT_EQ(host.all(DeviceKind::accelerator).size(), 4U);
}

TEST_F(NvmlTest, AMissingLibraryIsToldWhereThereAreGpus) {
  Host host = probeHost({.root = server_.root(), .nvml = "libnot-there.so.7"});
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("NVML: libnot-there.so.7: cannot open shared object file")));
  const MachineTree empty;
  host = probeHost({.root = empty.root(), .nvml = "libnot-there.so.7"});
  EXPECT_THAT(host.unread, ::testing::Not(Contains(HasSubstr("NVML"))));
}

TEST_F(NvmlTest, ALibraryThatIsNotNvmlIsTold) {
  const Host host = probeHost({.root = server_.root(), .nvml = "libm.so.6"});
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr("NVML: lacks functions")));
}

TEST_F(NvmlTest, ACapturedMachineIsNotAskedAboutThisOnesGpus) {
  EXPECT_THAT(probeHost({.root = server_.root()}).unread, IsEmpty());
}

}  // namespace
}  // namespace eccl::topology
