#include "topology/formats/nccl_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "topology/data_files.h"
#include "topology/nccl_texts.h"

namespace eccl::topology {
namespace {

using test::cpu;
using test::errorOf;
using test::gpu;
using test::parsed;
using test::system;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Counts {
  const char* file;
  size_t cpus, bridges, accelerators, nics, ports, links;
};

// Counted by another program (Python's ElementTree): elements, by what hangs below <pci> or by its class; links
// without those of a device to itself.
constexpr Counts kCounts[] = {
    {"amd_topo_16p1h.xml", 4, 28, 16, 8, 8, 56},
    {"amd_topo_3p_pcie_1.xml", 2, 3, 3, 1, 1, 0},
    {"amd_topo_4p2h.xml", 1, 10, 8, 1, 1, 16},
    {"amd_topo_4p3l.xml", 1, 6, 4, 1, 2, 12},
    {"amd_topo_4p3l_n2.xml", 4, 8, 8, 1, 1, 24},
    {"amd_topo_4p4h.xml", 1, 20, 16, 16, 16, 48},
    {"amd_topo_8p1h_1.xml", 2, 18, 8, 4, 4, 24},
    {"amd_topo_8p1h_4.xml", 2, 22, 8, 8, 8, 24},
    {"amd_topo_8p6l.xml", 2, 8, 8, 1, 1, 48},
    {"amd_topo_8p6l_3nic.xml", 2, 8, 8, 3, 3, 48},
    {"amd_topo_8p6l_6nic.xml", 2, 8, 8, 6, 6, 48},
    {"amd_topo_8p_90a_1.xml", 3, 0, 8, 0, 1, 24},
    {"amd_topo_8p_pcie.xml", 1, 10, 8, 1, 1, 0},
    {"amd_topo_8p_rome.xml", 2, 8, 8, 1, 1, 16},
    {"amd_topo_8p_rome_4nics.xml", 4, 20, 8, 4, 4, 24},
    {"amd_topo_8p_rome_n2_2.xml", 4, 8, 8, 1, 2, 16},
    {"amd_topo_8p_rome_pcie.xml", 2, 8, 8, 1, 2, 0},
    {"amd_topo_8p_ts1_1.xml", 4, 8, 8, 2, 2, 16},
    {"amd_topo_8p_ts1_n4_2.xml", 8, 8, 8, 2, 3, 16},
    {"aws_p4d-24xl.xml", 2, 4, 8, 4, 0, 0},
    {"azure_ncv4.xml", 4, 0, 4, 0, 1, 0},
    {"azure_ndv4.xml", 4, 4, 8, 8, 0, 0},
};

/// Reads what it writes, and writes what it read.
void expectRoundTrip(const Host& host) {
  const std::string text = toNcclXml(host);
  const Host again = test::parsed(text);
  EXPECT_TRUE(again == host) << text;
  EXPECT_EQ(toNcclXml(again), text);
}

class NcclXml : public ::testing::Test {
 protected:
  void SetUp() override { ECCL_NEEDS_XML(); }
};

TEST(NcclXmlBuild, WithoutPugixmlReadingSaysWhatToInstall) {
  if (canReadXml()) GTEST_SKIP() << "built with pugixml";
  const Result<Host> host = loadNcclXml(dataFolder() + "azure_ncv4.xml");
  EXPECT_EQ(host.status().code(), Code::invalidUsage);
  EXPECT_THAT(host.status().message(), AllOf(HasSubstr("azure_ncv4.xml"), HasSubstr("libpugixml-dev")));
}

TEST_F(NcclXml, CountsOfEveryRealFile) {
  EXPECT_EQ(std::size(kCounts), dataFiles().size());
  for (const Counts& counts : kCounts) {
    SCOPED_TRACE(counts.file);
    const Host host = dataHost(counts.file);
    EXPECT_EQ(host.all(DeviceKind::cpu).size(), counts.cpus);
    EXPECT_EQ(host.all(DeviceKind::bridge).size(), counts.bridges);
    EXPECT_EQ(host.all(DeviceKind::accelerator).size(), counts.accelerators);
    EXPECT_EQ(host.all(DeviceKind::nic).size(), counts.nics);
    EXPECT_EQ(host.all(DeviceKind::port).size(), counts.ports);
    EXPECT_EQ(host.devices.size(),
              counts.cpus + counts.bridges + counts.accelerators + counts.nics + counts.ports);
    EXPECT_EQ(host.fabric.size(), counts.links);
  }
}

TEST_F(NcclXml, EveryRealFileRoundTrips) {
  for (const std::string& name : dataFiles()) {
    SCOPED_TRACE(name);
    expectRoundTrip(dataHost(name));
  }
}

TEST_F(NcclXml, RealFilesAreUnderstoodButForWhatIsWrongInThem) {
  for (const std::string& name : dataFiles()) {
    SCOPED_TRACE(name);
    const std::vector<std::string> unread = dataHost(name).unread;
    if (name == "azure_ncv4.xml") {
      EXPECT_EQ(unread.size(), 4U);
      EXPECT_THAT(unread[0], HasSubstr("azure_ncv4.xml:5: 0001:00:00.0 has a link (NVLink) to itself"));
    } else if (name == "amd_topo_4p4h.xml") {
      ASSERT_EQ(unread.size(), 2U);
      EXPECT_THAT(unread[0], AllOf(HasSubstr(":23: <pci> has a bus id that was there before: 0000:c5:00.0"),
                                   HasSubstr("(7 times)")));
    } else if (name == "amd_topo_8p1h_1.xml") {
      EXPECT_THAT(unread, ElementsAre(HasSubstr(":114: <pci> has a bus id that was there before")));
    } else {
      EXPECT_THAT(unread, IsEmpty());
    }
  }
}

TEST_F(NcclXml, FactsOfARealFile) {
  const Host host = dataHost("amd_topo_8p_90a_1.xml");
  EXPECT_EQ(host.devices[0].name, "cpu3") << "CPUs in the file's order";
  EXPECT_EQ(host.devices[0].cpu->vendor, "AuthenticAMD");
  EXPECT_EQ(host.devices[0].cpu->family, 175);
  // ffff0000,00000000,ffff0000,00000000: bits 48-63 and 112-127
  ASSERT_EQ(host.devices[0].cpu->cores.size(), 32U);
  EXPECT_EQ(host.devices[0].cpu->cores[0], 48);
  EXPECT_EQ(host.devices[0].cpu->cores[16], 112);
  EXPECT_EQ(host.devices[0].cpu->cores[31], 127);
  const Device& gpu = host.devices[host.find("0000:C6:00.0")];
  EXPECT_EQ(gpu.pci->classCode, 0x038000U);
  EXPECT_EQ(gpu.pci->vendor, 0x1002U);
  EXPECT_EQ(gpu.pci->subsystemDevice, 0x0b0cU);
  EXPECT_EQ(gpu.pci->gigatransfers, 16);
  EXPECT_EQ(gpu.pci->width, 16);
  EXPECT_EQ(gpu.accelerator->rank, 1);
  EXPECT_EQ(gpu.accelerator->computeCapability, 104);
  EXPECT_EQ(gpu.accelerator->gcn, "910");
  EXPECT_EQ(gpu.accelerator->direct, false);
  EXPECT_EQ(host.fabric[0].from, host.find("0000:c1:00.0"));
  EXPECT_EQ(host.fabric[0].to, host.find("0000:c6:00.0"));
  EXPECT_EQ(host.fabric[0].kind, FabricKind::xgmi);
  const Device& port = host.devices[host.find("bond0")];
  EXPECT_EQ(port.parent, 0) << "an adapter that is not on PCI";
  EXPECT_EQ(port.port->megabits, 1000);
  EXPECT_EQ(port.port->maxConnections, 65536);
}

TEST_F(NcclXml, NvSwitchesAreThoseThatLinksName) {
  const std::string text =
      test::cpu(test::gpu("0000:1b:00.0",
                          "<nvlink target=\"0000:07:00.0\" count=\"5\" tclass=\"0x068000\"/>"
                          "<nvlink target=\"fffffff:ffff:ff\" count=\"4\" tclass=\"0x068000\"/>") +
                test::gpu("0000:1c:00.0", "<nvlink target=\"0000:07:00.0\" count=\"5\" tclass=\"0x068000\"/>"));
  const Host host = test::parsed(text);
  EXPECT_THAT(host.unread, IsEmpty());
  ASSERT_EQ(host.devices.size(), 5U);
  EXPECT_EQ(host.devices[3].kind, DeviceKind::nvSwitch);
  EXPECT_EQ(host.devices[3].name, "0000:07:00.0");
  EXPECT_EQ(host.devices[4].name, "fffffff:ffff:ff") << "what NCCL writes in virtual machines";
  ASSERT_EQ(host.fabric.size(), 6U);
  EXPECT_EQ(host.fabric[0], (FabricLink{1, 3, FabricKind::nvLink, 5, {}}));
  EXPECT_EQ(host.fabric[1], (FabricLink{3, 1, FabricKind::nvLink, 5, {}}));
  expectRoundTrip(host);
}

TEST_F(NcclXml, LinksWithCpusAreC2cOrPowersNvLink) {
  const Host grace = test::parsed(test::cpu(test::gpu("0009:01:00.0", "<c2c bw=\"44712\" count=\"10\"/>")));
  ASSERT_EQ(grace.fabric.size(), 2U);
  EXPECT_EQ(grace.fabric[0], (FabricLink{1, 0, FabricKind::c2c, 10, 44.712}));
  EXPECT_EQ(grace.fabric[1], (FabricLink{0, 1, FabricKind::c2c, 10, 44.712}));
  EXPECT_THAT(toNcclXml(grace), HasSubstr("<c2c bw=\"44712\" count=\"10\"/>"));
  expectRoundTrip(grace);
  const Host power = test::parsed(test::cpu(
      test::gpu("0004:04:00.0", "<nvlink target=\"0004:00:01.0\" count=\"3\" tclass=\"0x068001\"/>")));
  ASSERT_EQ(power.fabric.size(), 2U);
  EXPECT_EQ(power.fabric[0], (FabricLink{1, 0, FabricKind::nvLink, 3, {}}));
  expectRoundTrip(power);
}

TEST_F(NcclXml, KindsByClassAndByWhatHangsBelow) {
  const auto kindOf = [](const std::string& attributes, const std::string& inside = "") {
    return test::parsed(test::cpu("<pci busid=\"0000:01:00.0\" " + attributes + ">" + inside + "</pci>"))
        .devices[1]
        .kind;
  };
  EXPECT_EQ(kindOf("class=\"0x030200\""), DeviceKind::accelerator);
  EXPECT_EQ(kindOf("class=\"0x03\""), DeviceKind::accelerator)
      << "what NCCL writes where it does not know more";
  EXPECT_EQ(kindOf("class=\"0x038000\""), DeviceKind::accelerator);
  EXPECT_EQ(kindOf("class=\"0x120000\""), DeviceKind::accelerator);
  EXPECT_EQ(kindOf("class=\"0x020000\""), DeviceKind::nic);
  EXPECT_EQ(kindOf("class=\"0x020700\""), DeviceKind::nic);
  EXPECT_EQ(kindOf("class=\"0x060400\""), DeviceKind::bridge);
  EXPECT_EQ(kindOf("class=\"0x068000\" vendor=\"0x10de\""), DeviceKind::nvSwitch);
  EXPECT_EQ(kindOf("class=\"0x068000\" vendor=\"0x1022\""), DeviceKind::bridge);
  EXPECT_EQ(kindOf("class=\"0x010802\""), DeviceKind::other);
  EXPECT_EQ(kindOf(""), DeviceKind::other);
  EXPECT_EQ(kindOf("", "<gpu/>"), DeviceKind::accelerator);
  EXPECT_EQ(kindOf("class=\"0x080100\"", "<pci busid=\"0000:02:00.0\"/>"), DeviceKind::bridge);
  EXPECT_EQ(kindOf("class=\"0xff0000\"", "<nic><net name=\"a\"/></nic>"), DeviceKind::nic);
  EXPECT_EQ(kindOf("class=\"0x0b4000\" kind=\"accelerator\""), DeviceKind::accelerator);
}

/// Everything a Host can hold, as a probe would fill it.
Host fullHost() {
  Host host;
  host.name = "a<&\">b";
  host.unread = {"/sys/x: -- and --> and \\- tab-", "-", "", "a b\\n"};
  const auto add = [&](DeviceKind kind, int parent, const std::string& name) -> Device& {
    Device& device = host.devices.emplace_back();
    device.kind = kind;
    device.parent = parent;
    device.name = name;
    if (kind != DeviceKind::cpu && kind != DeviceKind::port) device.pci.emplace().busId = name;
    return device;
  };
  add(DeviceKind::cpu, -1, "cpu0").cpu = CpuFacts{{0, 1, 35}, "x86_64", "GenuineIntel", 6, 143, 0xabcdefULL};
  add(DeviceKind::cpu, -1, "cpu-1").cpu = CpuFacts{{}, "", "", {}, {}, 0xabcdefULL};
  add(DeviceKind::port, 0, "lo<0>").port = PortFacts{};
  add(DeviceKind::bridge, 0, "0000:01:00.0").pci =
      PciFacts{"0000:01:00.0", 0x060400, 0x1000, 0xc030, 1, 2, 2.5, 32.123, 8, 16};
  add(DeviceKind::accelerator, 3, "0000:02:00.0").accelerator =
      AcceleratorFacts{3, 4, 90, "gfx942:sramecc+", -7, true};
  add(DeviceKind::accelerator, 3, "0000:03:00.0").pci->classCode =
      0x0b4000;                               // never asked, and of an odd class
  add(DeviceKind::other, 3, "0000:04:00.0");  // no class at all
  add(DeviceKind::nvSwitch, 3, "0000:05:00.0").pci->classCode = 0x068000;
  add(DeviceKind::bridge, 3, "0000:01:00.0#2").pci->busId = "0000:01:00.0";
  add(DeviceKind::nic, 8, "0000:06:00.0").pci->classCode = 0x020000;
  add(DeviceKind::port, 9, "mlx5_0").port =
      PortFacts{1,    2, 400000, 800000, 0xfedcba9876543210ULL, 1.25, 128, true, "ib0", "up", "InfiniBand",
                4096, 3, 1,      true};
  add(DeviceKind::port, 9, "mlx5_1").port = PortFacts{};
  add(DeviceKind::port, 1, "eth0").port = PortFacts{};
  add(DeviceKind::accelerator, -1, "0000:07:00.0");  // below no CPU that is known
  Device& named = add(DeviceKind::nvSwitch, -1, "nvswitch0");
  named.pci.reset();
  host.fabric = {{3, 8, FabricKind::pciSwitch, 1, {}},   {4, 5, FabricKind::nvLink, 2, {}},
                 {4, 14, FabricKind::nvLink, 18, 26.57}, {14, 4, FabricKind::nvLink, 18, 26.57},
                 {4, 0, FabricKind::c2c, 1, 0.1},        {0, 4, FabricKind::c2c, 1, 0.1},
                 {4, 1, FabricKind::c2c, 1, {}},         {1, 4, FabricKind::c2c, 1, {}},
                 {4, 7, FabricKind::nvLink, 1, {}},      {7, 4, FabricKind::nvLink, 1, {}},
                 {13, 4, FabricKind::xgmi, 1, 1.0 / 3}};
  return host;
}

TEST_F(NcclXml, KeepsEverythingAHostCanHold) {
  const Host host = fullHost();
  const Status status = validate(host);
  ASSERT_TRUE(status.ok()) << status.message();
  expectRoundTrip(host);
  EXPECT_THAT(toNcclXml(host), HasSubstr("version=\"2\"")) << "with xGMI it is RCCL's";
}

TEST_F(NcclXml, WhatNcclKnowsIsWrittenAsNcclWritesIt) {
  const std::string text = toNcclXml(dataHost("amd_topo_16p1h.xml"));
  // A line of the original file, and one whose speed and mask it writes another way.
  EXPECT_THAT(
      text, HasSubstr("    <pci busid=\"0000:41:00.0\" class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" "
                      "subsystem_vendor=\"0x1000\" subsystem_device=\"0xa096\" "
                      "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\n"));
  EXPECT_THAT(text,
              HasSubstr("<cpu numaid=\"0\" affinity=\"ffffffff,00000000,00000000,00000000,ffffffff\" arch"));
  EXPECT_THAT(text, HasSubstr("<xgmi target=\"0000:51:00.0\" count=\"4\" tclass=\"0x038000\"/>\n"));
}

TEST_F(NcclXml, NotesWhatItDoesNotKeep) {
  const Host host = test::parsed(
      test::cpu("<pci busid=\"0000:01:00.0\" class=\"0x03\" mood=\"good\"><gpu mlopart=\"1\"/></pci>\n"
                "<pci busid=\"0000:02:00.0\" class=\"0x03\" mood=\"bad\"><gpu/><gpu/><teapot "
                "a=\"1\"><b/></teapot></pci>\n"
                "<nic><net name=\"eth0\" speed=\"-1\" gdr=\"2\"/></nic>"));
  EXPECT_THAT(host.unread,
              ElementsAre("t.xml:3: <gpu> has an attribute \"mlopart\", which is not kept",
                          "t.xml:3: <pci> has an attribute \"mood\", which is not kept (2 times)",
                          "t.xml:4: <pci> has a second <gpu>, which is not kept",
                          "t.xml:4: <pci> has an element \"teapot\", which is not kept",
                          "t.xml:5: <net> has speed=-1, taken as unknown", "t.xml:5: gdr=2 is taken for 1"));
  EXPECT_FALSE(host.devices[3].port->megabits.has_value());
  expectRoundTrip(host);
}

TEST_F(NcclXml, LeavesOutLinksThatLeadNowhere) {
  const Host host = test::parsed(
      test::cpu(test::gpu("0000:01:00.0",
                          "<nvlink target=\"0000:09:00.0\" count=\"1\" tclass=\"0x030200\"/>\n"
                          "<nvlink target=\"0000:01:00.0\" count=\"1\"/>\n"
                          "<xgmi target=\"0000:02:00.0\" count=\"1\"/>\n") +
                "<pci busid=\"0000:02:00.0\" class=\"0x060400\"><pcilink target=\"0000:03:00.0\"/></pci>"));
  EXPECT_THAT(host.fabric, IsEmpty());
  EXPECT_THAT(
      host.unread,
      ElementsAre(HasSubstr(":3: 0000:01:00.0 has a link (NVLink) whose target is not in the file"),
                  HasSubstr(":4: 0000:01:00.0 has a link (NVLink) to itself"),
                  HasSubstr(":5: 0000:01:00.0 has a link (xGMI) whose target cannot have any"),
                  HasSubstr(":7: 0000:02:00.0 has a link (PCI switch) whose target is not in the file")));
}

TEST_F(NcclXml, TakesAdaptersBelowSystemAsThoseOfTheFirstCpu) {
  const Host host = test::parsed(test::system("<nic><net name=\"eth0\"/></nic>\n<cpu numaid=\"1\"/>"));
  EXPECT_EQ(host.devices[1].parent, 0);
  EXPECT_THAT(host.unread, ElementsAre(HasSubstr(":2: <nic> below <system>")));
  EXPECT_THAT(test::parsed(test::system("<nic/>")).unread,
              ElementsAre("t.xml:2: <nic> below a <system> without <cpu> is left out"));
}

TEST_F(NcclXml, ErrorsNameTheLine) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "t.xml:1: No document element found"},
      {"<system version=\"1\">\n<cpu numaid=\"0\">\n", "t.xml:2: Start-end tags mismatch"},
      {"<graphs version=\"1\"/>", "t.xml:1: a topology is a <system>, not <\"graphs\">"},
      {"\n<system version=\"3\"/>", "t.xml:2: <system> version=\"3\" is neither 1 nor 2"},
      {"<system version=\"one\"/>", "t.xml:1: <system> version=\"one\" is neither 1 nor 2"},
      {"<system/>", "t.xml:1: <system> has no version"},
      {test::system("<cpu/>"), "t.xml:2: <cpu> has no numaid"},
      {test::cpu("<pci/>"), "t.xml:3: <pci> has no busid"},
      {test::cpu("some text"), "t.xml:2: text where an element is expected: \"\\x0asome text\\x0a\""},
      {std::string("<system version=\"1\">\n\0</system>", 30), "t.xml:2: a byte 0"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(test::errorOf(text), HasSubstr(message)) << text;
}

TEST_F(NcclXml, Limits) {
  const auto nested = [](int depth) {
    std::string open, close;
    for (int i = 0; i < depth; ++i) {
      open += "<pci busid=\"" + format("%04x:00:00.0", i) + "\" class=\"0x060400\">\n";
      close += "</pci>";
    }
    return test::cpu(open + close);
  };
  expectRoundTrip(test::parsed(nested(kMaxDepth - 2)));  // a CPU above, a port may hang below
  EXPECT_THAT(test::errorOf(nested(kMaxDepth - 1)),
              HasSubstr("t.xml:257: <pci> \"00fe:00:00.0\" is nested deeper than 255"));
  EXPECT_THAT(test::errorOf(nested(100000)), HasSubstr("is nested deeper than 255"));

  std::string cpus;
  for (int i = 0; i <= kMaxCpus; ++i) cpus += "<cpu numaid=\"" + std::to_string(i) + "\"/>\n";
  EXPECT_THAT(test::errorOf(test::system(cpus)), HasSubstr("t.xml:1026: <cpu> \"1024\" is more than 1024"));

  std::string devices;
  for (size_t i = 0; i < kMaxXmlDevices; ++i) devices += "<pci busid=\"" + format("%zx:00:00.0", i) + "\"/>\n";
  EXPECT_THAT(test::errorOf(test::cpu(devices)),
              HasSubstr("t.xml:65538: <pci> \"ffff:00:00.0\" is device 65537"));
  devices.resize(devices.rfind("<pci"));
  EXPECT_EQ(test::parsed(test::cpu(devices)).devices.size(), kMaxXmlDevices);

  EXPECT_THAT(test::errorOf(std::string(kMaxXmlBytes + 1, ' ')), HasSubstr("16777217 bytes are more than"));
  std::string attributes;
  for (int i = 0; i < 65; ++i) attributes += " a" + std::to_string(i) + "=\"\"";
  EXPECT_THAT(test::parsed("<system version=\"1\"" + attributes + "/>").unread,
              Contains("t.xml:1: <system> has more than 64 attributes: the others are left out"));

  std::string unknown;
  for (int i = 0; i < 1000; ++i) unknown += "<x" + std::to_string(i) + "/>\n";
  const Host host = test::parsed(test::system(unknown));
  ASSERT_EQ(host.unread.size(), 101U);
  EXPECT_EQ(host.unread[100], "t.xml: 900 notes more");
}

TEST_F(NcclXml, ACutFileIsAnErrorWhereverItIsCut) {
  const std::string text = contentOfFile(dataFolder() + "azure_ncv4.xml");
  const size_t end = text.rfind('>');
  for (size_t length = 0; length < end; ++length)
    EXPECT_FALSE(parseNcclXml(text.substr(0, length), "t.xml").ok()) << length;
}

TEST_F(NcclXml, FilesAreSavedAndLoaded) {
  const std::string path = ::testing::TempDir() + "eccl_topology_" + std::to_string(getpid()) + ".xml";
  const Host host = dataHost("azure_ndv4.xml");
  ASSERT_TRUE(saveNcclXml(host, path).ok());
  Result<Host> again = loadNcclXml(path);
  std::remove(path.c_str());
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(*again == host);

  EXPECT_THAT(loadNcclXml(path).status().message(), AllOf(HasSubstr(path), HasSubstr("No such file")));
  EXPECT_EQ(loadNcclXml(path).status().code(), Code::system);
  EXPECT_EQ(loadNcclXml("/").status().code(), Code::system) << "a folder opens, but does not read";
  EXPECT_THAT(saveNcclXml(host, "/no/such/folder").message(), HasSubstr("No such file"));
  EXPECT_EQ(saveNcclXml(host, "/dev/full").code(), Code::system);
  Host wrong = host;
  wrong.devices.back().parent = 1 << 20;
  EXPECT_EQ(saveNcclXml(wrong, path).code(), Code::invalidArgument);
  EXPECT_EQ(toNcclXml(wrong), "");
}

}  // namespace
}  // namespace eccl::topology
