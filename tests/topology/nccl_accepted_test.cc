// Whatever NCCL accepts is accepted, with a sentence that names line and value. What NCCL accepts was looked up
// in version 2.28's src/graph/xml.cc and topo.cc: numbers by strtol(), speeds and classes by tables that have a
// last entry for everything else, unknown elements and attributes skipped, names never compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/printable.h"
#include "topology/data_files.h"
#include "topology/nccl_texts.h"

namespace eccl::topology {
namespace {

using test::cpu;
using test::gpu;
using test::system;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class NcclAccepted : public ::testing::Test {
 protected:
  void SetUp() override { ECCL_NEEDS_XML(); }
  /// The host in a text that must be accepted; `odd_` is what its user is told.
  Host accepted(const std::string& text) {
    odd_.clear();
    Result<Host> host = parseNcclXml(text, "t.xml", &odd_);
    EXPECT_TRUE(host.ok()) << host.status().message() << "\n" << text;
    if (!host.ok()) return {};
    for (const std::string& sentence : odd_) EXPECT_THAT(host->unread, Contains(sentence));
    const Result<Host> again = parseNcclXml(toNcclXml(*host), "again.xml");
    EXPECT_TRUE(again.ok() && *again == *host) << toNcclXml(*host);
    return host.take();
  }
  std::vector<std::string> odd_;
};

// As NCCL writes it where an adapter is not on PCI: the same port below each CPU.
TEST_F(NcclAccepted, ASocketAdapterBelowEachCpuIsOnePort) {
  const auto node = [](int number) {
    return "<cpu host_hash=\"0x3f1b0c5cf2a66a81\" numaid=\"" + std::to_string(number) +
           "\" affinity=\"ffffffff\" arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" "
           "modelid=\"143\">\n" +
           test::gpu("0000:" + std::to_string(1 + number) + "b:00.0",
                     "<nvlink target=\"0000:c1:00.0\" count=\"18\" tclass=\"0x068000\"/>") +
           "<nic>\n<net name=\"eth0\" dev=\"0\" latency=\"0\" speed=\"10000\" port=\"0\" guid=\"0x0\" "
           "maxconn=\"65536\" gdr=\"0\" keep=\"1\"/>\n</nic>\n</cpu>\n";
  };
  const Host host = accepted(test::system(node(0) + node(1)));
  EXPECT_EQ(host.all(DeviceKind::cpu).size(), 2U);
  ASSERT_EQ(host.all(DeviceKind::port).size(), 1U);
  EXPECT_EQ(host.devices[host.find("eth0")].parent, 0);
  EXPECT_THAT(odd_,
              ElementsAre("t.xml:11: <net> \"eth0\" is there a second time: taken for the port below cpu0"));
}

TEST_F(NcclAccepted, PortsOfOneNameButAnotherNumberAreTwo) {
  const Host host = accepted(test::cpu(
      "<pci busid=\"0000:01:00.0\" class=\"0x020000\"><nic>\n<net name=\"mlx5_0\" dev=\"0\" port=\"1\"/>\n"
      "<net name=\"MLX5_0\" dev=\"1\" port=\"2\"/>\n</nic></pci>\n"
      "<nic><net name=\"eth0\" dev=\"2\"/><net name=\"eth0\" dev=\"3\"/><net name=\"eth0\" "
      "dev=\"4\"/></nic>"));
  for (const char* name : {"mlx5_0", "MLX5_0#2", "eth0", "eth0#2", "eth0#3"})
    EXPECT_NE(host.find(name), Device::kNone) << name;
  EXPECT_THAT(odd_, Contains("t.xml:5: the name of another device is numbered: MLX5_0"));
}

TEST_F(NcclAccepted, SpeedsAreReadAsFarAsTheyGo) {
  const std::tuple<const char*, double, const char*> cases[] = {
      {"32 GT/s PCIe/s", 32, "for 32.0 GT/s PCIe"},
      {"32GT/s", 32, "for 32.0 GT/s PCIe"},
      {"16.0 GT/s PCIe Gen4", 16, "for 16.0 GT/s PCIe"},
      {"fast", 0, "as unknown"},
      {"32", 0, "as unknown"},
      {"nan GT/s", 0, "as unknown"},
      {"1e999 GT/s", 0, "as unknown"},
      {"-8 GT/s", 0, "as unknown"},
  };
  for (const auto& [text, speed, taken] : cases) {
    const Host host = accepted(test::cpu("<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"" +
                                         std::string(text) + "\" link_width=\"16\"/>"));
    EXPECT_EQ(host.devices.at(1).pci->gigatransfers, speed) << text;
    EXPECT_THAT(odd_, ElementsAre("t.xml:3: <pci> has link_speed=\"" + std::string(text) +
                                  "\", which is not a speed such as 16.0 GT/s PCIe: taken " + taken));
  }
  for (const char* known : {"", "Unknown", "Unknown speed", "2.5 GT/s", "8 GT/s PCIe", "32.0 GT/s PCIe"}) {
    accepted(test::cpu("<pci busid=\"0000:01:00.0\" link_speed=\"" + std::string(known) + "\"/>"));
    EXPECT_THAT(odd_, IsEmpty()) << known;
  }
}

TEST_F(NcclAccepted, ValuesThatAreNone) {
  const std::string device = "<pci busid=\"0000:01:00.0\" class=\"0x020000\" ";
  const std::pair<std::string, const char*> cases[] = {
      {"<system version=\"1.0\"/>",
       "t.xml:1: <system> has version=\"1.0\", which is not a whole number from 1 to 2: taken for 1"},

      {test::system("") + test::system(""), "t.xml:4: <system> beside the first <system> is left out"},
      {test::system("<cpu numaid=\"zero\"/>"), "t.xml:2: <cpu> has numaid=\"zero\", which is not"},
      {test::system("<cpu numaid=\"0\" affinity=\"12,xyz\"/>"), "affinity=\"12,xyz\", which is not a mask"},
      {test::system("<cpu numaid=\"0\" host_hash=\"hash\"/>"),
       "host_hash=\"hash\", which is not a hexadecimal number"},
      {test::cpu("<pci busid=\"1:2\"/>"),
       "t.xml:3: <pci> has busid=\"1:2\", which is not a PCI bus id such as 0000:3b:00.0: "
       "taken for 0000:00:01.2"},
      {test::cpu(device + "link_width=\"-4\"/>"),
       "link_width=\"-4\", which is not a whole number from 0 to 64: taken as unknown"},
      {test::cpu(device + "link_width=\"99999999999999999999\"/>"), "taken as unknown"},
      {test::cpu(device + "link_width=\"16x\"/>"),
       "link_width=\"16x\", which is not a whole number from 0 to 64: taken for 16"},
      {test::cpu(device + "vendor=\"mellanox\"/>"), "vendor=\"mellanox\""},
      {test::cpu("<pci busid=\"0000:01:00.0\" class=\"display\"/>"),
       "class=\"display\", which is not a PCI class"},
      {test::cpu("<pci busid=\"0000:01:00.0\" kind=\"x\"/>"), "kind=\"x\", which is not bridge, "},
      {test::cpu("<pci busid=\"0000:01:00.0\" kind=\"bridge\"><gpu/></pci>"),
       "of another kind than what is below it"},
      {test::cpu("<pci busid=\"0000:01:00.0\"><gpu/>\n<nic/></pci>"),
       "t.xml:4: <nic> is left out, as its <pci> is taken for: accelerator"},
      {test::cpu("<pci busid=\"0000:01:00.0\"><nic/><pci busid=\"0000:02:00.0\"/></pci>"),
       "<pci> is left out, as its <pci> is taken for: network adapter"},
      {test::cpu("<nic><net speed=\"1\"/></nic>"),
       "t.xml:3: <net> has neither a name nor a dev: it is left out"},
      {test::cpu("<nic><net name=\"a\" speed=\"-2\"/></nic>"), "speed=\"-2\", which is not"},
      {test::cpu("<nic><net name=\"a\" speed=\"100Gb\"/></nic>"),
       "speed=\"100Gb\", which is not a whole number from -1 to "
       "9223372036854775807: taken for 100"},
      {test::cpu("<nic><net name=\"a\" latency=\"nan\"/></nic>"), "latency=\"nan\", which is not a time"},
      {test::cpu("<nic><net name=\"a\" guid=\"0x-1\"/></nic>"),
       "guid=\"0x-1\", which is not a hexadecimal number"},
      {test::cpu("<nic><net name=\"a\" dev=\"x\"/></nic>"), "dev=\"x\", which is not a whole number"},
      {test::cpu(test::gpu("0000:01:00.0", "\n<nvlink count=\"1\"/>")),
       "t.xml:4: 0000:01:00.0 has a link (NVLink) without a target"},
      {test::cpu(test::gpu("0000:01:00.0", "\n<nvlink target=\"x\"/>")),
       "t.xml:4: 0000:01:00.0 has a link (NVLink) whose count is none"},
      {test::cpu(test::gpu("0000:01:00.0", "<nvlink target=\"x\" count=\"0\"/>")), "count=\"0\", which is not"},
      {test::cpu(test::gpu("0000:01:00.0", "<nvlink target=\"0000:02:00.0\" count=\"1\"/>")),
       "whose target is not in the file"},
      {test::cpu(test::gpu("0000:01:00.0", "<nvlink target=\"y\" count=\"1\" tclass=\"gpu\"/>")),
       "tclass=\"gpu\", which is not a PCI class"},
      {test::cpu(test::gpu("0000:01:00.0", "<c2c count=\"1\" bw=\"-5\"/>")),
       "bw=\"-5\", which is not a bandwidth"},
      {test::cpu(test::gpu("0000:01:00.0", "<c2c count=\"1\" bw=\"1e300\"/>")),
       "bw=\"1e300\", which is not a bandwidth"},
      {test::cpu("<pci busid=\"0000:01:00.0\" rank=\"0\" rank=\"1\"/>"),
       "two attributes \"rank\": of \"0\" and \"1\" the first is taken"},
  };
  for (const auto& [text, sentence] : cases) {
    accepted(text);
    EXPECT_THAT(odd_, Contains(HasSubstr(sentence))) << text;
    EXPECT_THAT(odd_, Each(HasSubstr("t.xml:"))) << text;
  }
}

TEST_F(NcclAccepted, DevicesThatShareABusIdAreAllThere) {
  const Host host =
      accepted(test::cpu(test::gpu("0000:01:00.0", "<nvlink target=\"0000:02:00.0\" count=\"2\"/>") +
                         test::gpu("0000:01:00.0", "") + test::gpu("0000:02:00.0", "")));
  ASSERT_EQ(host.all(DeviceKind::accelerator).size(), 3U);
  EXPECT_EQ(host.devices[2].name, "0000:01:00.0#2");
  EXPECT_EQ(host.fabric.at(0), (FabricLink{1, 3, FabricKind::nvLink, 2, {}}));
  EXPECT_THAT(odd_, ElementsAre("t.xml:4: <pci> has a bus id that was there before: 0000:01:00.0"));
}

TEST_F(NcclAccepted, ACpuThatIsThereTwiceIsOne) {
  const Host host = accepted(
      test::system("<cpu numaid=\"1\"/>\n<cpu numaid=\"1\">" + test::gpu("0000:01:00.0", "") + "</cpu>"));
  EXPECT_EQ(host.all(DeviceKind::cpu).size(), 1U);
  EXPECT_EQ(host.devices.at(1).parent, 0);
  EXPECT_THAT(odd_, ElementsAre(HasSubstr("t.xml:3: <cpu> cpu1 is there a second time")));
}

TEST_F(NcclAccepted, DevicesStandInTheOrderOfTheirCpus) {
  const auto node = [](int number, int bus) {
    return "<cpu numaid=\"" + std::to_string(number) + "\">" +
           test::gpu("0000:0" + std::to_string(bus) + ":00.0", "") + "</cpu>\n";
  };
  const Host host =
      accepted(test::system(node(0, 1) + node(1, 2) + node(0, 3) + "<nic><net name=\"eth0\"/></nic>"));
  ASSERT_EQ(host.devices.size(), 6U);
  for (int i : {2, 3, 4}) EXPECT_EQ(host.devices[i].parent, 0) << i;
  EXPECT_EQ(host.devices[5].parent, 1);
}

TEST_F(NcclAccepted, WhatASwitchIsCalledIsNoBusId) {
  const Host host =
      accepted(test::cpu(test::gpu("0", "<nvlink target=\"nvswitch0\" count=\"18\" tclass=\"0x068000\"/>")));
  EXPECT_EQ(host.all(DeviceKind::nvSwitch).size(), 1U);
  EXPECT_EQ(host.fabric.size(), 2U);
}

// NCCL's dump where GPUs of several hosts share an NVLink domain.
TEST_F(NcclAccepted, OfSeveralHostsTheFirstIsTaken) {
  const Host host = accepted(
      test::system("<cpu numaid=\"0\" host_hash=\"0x1\">" + test::gpu("0000:01:00.0", "") +
                   "</cpu>\n<cpu numaid=\"0\" host_hash=\"0x2\">" + test::gpu("0000:02:00.0", "") + "</cpu>"));
  EXPECT_EQ(host.all(DeviceKind::accelerator).size(), 1U);
  EXPECT_THAT(odd_, ElementsAre(HasSubstr("t.xml:4: <cpu> has another host_hash than the first")));
}

TEST_F(NcclAccepted, LinksToSwitchesAndCpusNeedNoTarget) {
  const Host host = accepted(test::cpu(test::gpu("0000:01:00.0", "<nvlink count=\"18\" tclass=\"0x068000\"/>") +
                                       test::gpu("0000:02:00.0",
                                                 "<nvlink count=\"18\" tclass=\"0x068000\"/>"
                                                 "<nvlink count=\"3\" tclass=\"0x068001\"/>")));
  EXPECT_THAT(odd_, IsEmpty());
  EXPECT_EQ(host.all(DeviceKind::nvSwitch).size(), 1U);
  EXPECT_EQ(host.fabric.size(), 6U);
}

TEST_F(NcclAccepted, WhatNcclTrimsKeepsOrAddsIsNothingToTellOf) {
  accepted(test::cpu(
      "<pci busid=\"0000:01:00.0\" class=\"0x030200\" keep=\"1\"><gpu dev=\"0\" mlopart=\"0\"/></pci>\n"
      "<nic><net name=\"eth0\" speed=\"-1\" gin=\"0\" net=\"1\" rma=\"0\"/></nic><teapot/>"));
  EXPECT_THAT(odd_, IsEmpty());
}

TEST_F(NcclAccepted, RealFilesTellOnlyOfWhatIsWrongInThem) {
  for (const std::string& name : dataFiles()) {
    accepted(contentOfFile(dataFolder() + name));
    if (name == "azure_ncv4.xml" || name == "amd_topo_4p4h.xml" || name == "amd_topo_8p1h_1.xml")
      EXPECT_THAT(odd_, Each(AllOf(HasSubstr("t.xml:"), Not(HasSubstr("not kept"))))) << name;
    else
      EXPECT_THAT(odd_, IsEmpty()) << name;
  }
}

TEST_F(NcclAccepted, NothingOfATextReachesATerminalAsItIs) {
  const Host host = accepted(
      "<system version=\"1\" name=\"a\033[2Jb\">\n<!-- unread: x\a -->\n"
      "<cpu numaid=\"0\" arch=\"\033\" vendor=\"\x9b\"><pci busid=\"0000:01:00.0\" name=\"\x7f\"><gpu "
      "gcn=\"&#27;c\"/>"
      "</pci><nic><net name=\"e\xc2\x9bth\" state=\"up&#10;\" link_layer=\"\b\" interface=\"\033\" "
      "speed=\"\033\" "
      "\u009b=\"1\"/></nic><\u009b/></cpu></system>");
  std::string all = host.name + toNcclXml(host);
  for (const Device& device : host.devices) all += device.name;
  for (const std::string& sentence : host.unread) all += sentence;
  for (const std::string& sentence : odd_) all += sentence;
  all.erase(std::remove(all.begin(), all.end(), '\n'), all.end());  // toNcclXml()'s own
  EXPECT_EQ(printable(all), all);
  EXPECT_EQ(host.name, "a\\x1b[2Jb");
  EXPECT_NE(host.find("e\\xc2\\x9bth"), Device::kNone);
}

}  // namespace
}  // namespace eccl::topology
