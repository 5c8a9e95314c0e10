#include "topology/formats/host_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "topology/data_files.h"
#include "topology/formats/host_formats.h"
#include "topology/formats/nccl_xml.h"
#include "topology/model/cluster.h"
#include "topology/probe/probe.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

void expectIdentity(const Host& host) {
  const Result<std::string> text = toJson(host);
  ASSERT_TRUE(text.ok()) << text.status().message();
  const Result<Host> again = parseHostJson(*text, "text");
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, host);
}

TEST(HostJson, RealMachinesSurvive) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ECCL_SOURCE_DIR "/tests/topology/data")) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path());
    const Result<Host> host = loadNcclXml(entry.path());
    ASSERT_TRUE(host.ok()) << host.status().message();
    expectIdentity(*host);
    ++files;
  }
  EXPECT_GE(files, 22);
}

TEST(HostFormats, EachReadsWhatItWritesAndKnowsItsText) {
  const Host host = probeHost();
  for (const HostFormat& format : hostFormats()) {
    if (format.name == std::string_view("xml") && !canReadXml()) continue;
    const Result<std::string> text = format.write(host);
    ASSERT_TRUE(text.ok()) << format.name << ": " << text.status().message();
    EXPECT_EQ(findHostFormat(format.name), &format);
    const Result<Host> again = parseHost(" \n" + *text, "text");
    ASSERT_TRUE(again.ok()) << format.name << ": " << again.status().message();
    EXPECT_EQ(withoutIdentity(*again).devices, withoutIdentity(host).devices) << format.name;
  }
  EXPECT_EQ(findHostFormat("yaml"), nullptr);
  EXPECT_FALSE(parseHost("", "nothing").ok());
  EXPECT_FALSE(parseHost("  \n", "blanks").ok());
}

TEST(HostJson, ThisMachineSurvives) {
  expectIdentity(probeHost());
}

TEST(HostJson, EveryFactSurvives) {
  Host host;
  host.name = "node \"7\" <&>";
  host.devices.push_back({DeviceKind::cpu,
                          Device::kNone,
                          "cpu0",
                          CpuFacts{{0, 1, 5}, "x86_64", "GenuineIntel", 6, 143, ~0ULL},
                          {},
                          {},
                          {}});
  PciFacts pci{"0000:01:00.0", 0x030200, 0x10de, 0x2330, 1, 2, 32, 64, 8, 16};
  host.devices.push_back({DeviceKind::accelerator,
                          0,
                          "0000:01:00.0",
                          {},
                          pci,
                          AcceleratorFacts{0, 3, 90, "gfx942", 7, false},
                          {}});
  pci.busId = "0000:02:00.0";
  host.devices.push_back({DeviceKind::nic, 0, "0000:02:00.0", {}, pci, {}, {}});
  host.devices.push_back({DeviceKind::port,
                          2,
                          "mlx5_0",
                          {},
                          {},
                          {},
                          PortFacts{0, 1, 200000, 400000, 0xfedcba9876543210ULL, 1.5, 128, true, "ib0", "up",
                                    "InfiniBand", 4096, 2, 1, true}});
  host.devices.push_back({DeviceKind::nvSwitch, Device::kNone, "nvswitch0", {}, {}, {}, {}});
  host.fabric.push_back({1, 4, FabricKind::nvLink, 18, 26.5});
  host.fabric.push_back({4, 1, FabricKind::nvLink, 18, 26.5});
  host.fabric.push_back({1, 0, FabricKind::c2c, 1, {}});
  host.fabric.push_back({0, 1, FabricKind::c2c, 1, {}});
  host.unread = {"/sys: nothing there"};
  expectIdentity(host);
}

TEST(HostJson, SaysWhereATextIsWrong) {
  const auto error = [](const std::string& text) { return parseHostJson(text, "f.json").status().message(); };
  const auto with = [](const std::string& device) {
    return R"({"format": "eccl-host", "version": 1, "devices": [{"name": "cpu0", "kind": "cpu", "cpu": {}}, )" +
           device + R"(], "links": []})";
  };
  EXPECT_THAT(error("{\n  \"format\":"), HasSubstr("f.json: "));
  EXPECT_THAT(error("{\n  \"format\":"), HasSubstr("line 2"));
  EXPECT_EQ(error("[]"), "f.json: is not an object");
  EXPECT_EQ(error("{}"), "f.json: format is not \"eccl-host\"");
  EXPECT_EQ(error(R"({"format": "eccl-host", "version": 2})"), "f.json: version is not 1");
  EXPECT_EQ(error(with(R"({"name": "x", "kind": "gpu"})")),
            "f.json: devices[1].kind is none of cpu, bridge, accelerator, nic, port, nvSwitch, other");
  EXPECT_EQ(error(with(R"({"name": "x", "kind": "other", "parent": "y", "pci": {}})")),
            "f.json: devices[1].parent is \"y\", which no device before it is called");
  EXPECT_EQ(error(with(R"({"name": "x", "kind": "other", "pci": {"width": 1.5}})")),
            "f.json: devices[1].pci.width is not a whole number of 32 bits");
  EXPECT_EQ(error(with(R"({"name": "x", "kind": "other", "pci": {"vendor": "0x123456789"}})")),
            "f.json: devices[1].pci.vendor is not hexadecimal text of 32 bits, such as \"0x1a\"");
  EXPECT_EQ(error(with(R"({"name": "x", "kind": "other", "pci": {"colour": 1}})")),
            "f.json: devices[1].pci.colour is not known");
  EXPECT_THAT(error(with(R"({"name": "CPU0", "kind": "cpu", "cpu": {}})")),
              HasSubstr("has another device's name"));
  EXPECT_THAT(error(with(R"({"name": "x", "kind": "cpu", "cpu": {"cores": [1, "2"]}})")),
              HasSubstr("devices[1].cpu.cores is not an array"));
}

}  // namespace
}  // namespace eccl::topology
