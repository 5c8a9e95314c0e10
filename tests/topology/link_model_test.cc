#include "topology/model/link_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "topology/data_files.h"

namespace eccl::topology {
namespace {

using ::testing::HasSubstr;

constexpr double kTolerance = 1e-3;

TEST(PciGigabytes, OfEveryGeneration) {
  // Acknowledgements, flow control and skips take 8/203 + 8/203 + 4/1538 = 0.081418, packets of 256 bytes 24 of
  // 280: 0.918582 x 0.914286 = 0.839846 are left.
  EXPECT_NEAR(pciGigabytes(2.5, 16), 4.0 * 0.839846, kTolerance);  // 2.5 x 16 / 8 x 8/10
  EXPECT_NEAR(pciGigabytes(5, 16), 8.0 * 0.839846, kTolerance);
  EXPECT_NEAR(pciGigabytes(8, 16), 15.753846 * 0.839846, kTolerance);  // 8 x 16 / 8 x 128/130
  EXPECT_NEAR(pciGigabytes(16, 16), 31.507692 * 0.839846, kTolerance);
  EXPECT_NEAR(pciGigabytes(32, 16), 63.015385 * 0.839846, kTolerance);
  EXPECT_NEAR(pciGigabytes(64, 16), 128 * 0.921875 * 256 / 272, kTolerance);  // flits: 236 of 256, no framing
  EXPECT_NEAR(pciGigabytes(8, 4) * 4, pciGigabytes(8, 16), kTolerance);
  EXPECT_EQ(pciGigabytes(0, 16), 0);
}

/// A CPU, a bridge, two accelerators and an adapter with a port; tests change what they are about.
Host smallHost() {
  Host host;
  const auto add = [&](DeviceKind kind, int parent, const char* name) -> Device& {
    Device& device = host.devices.emplace_back();
    device.kind = kind;
    device.parent = parent;
    device.name = name;
    if (kind != DeviceKind::cpu && kind != DeviceKind::port)
      device.pci = PciFacts{name, {}, {}, {}, {}, {}, 16, 0, 16, 0};
    return device;
  };
  add(DeviceKind::cpu, -1, "cpu0").cpu = CpuFacts{{}, "x86_64", "AuthenticAMD", {}, {}, {}};
  add(DeviceKind::cpu, -1, "cpu1").cpu = CpuFacts{{}, "x86_64", "AuthenticAMD", {}, {}, {}};
  add(DeviceKind::bridge, 0, "0000:01:00.0");
  add(DeviceKind::accelerator, 2, "0000:02:00.0").accelerator.emplace().computeCapability = 90;
  add(DeviceKind::accelerator, 2, "0000:03:00.0").accelerator.emplace().computeCapability = 90;
  add(DeviceKind::nic, 2, "0000:04:00.0");
  add(DeviceKind::port, 5, "mlx5_0").port.emplace().megabits = 400000;
  return host;
}

Link linkOf(const Host& host, int a, int b) {
  const Status status = validate(host);
  EXPECT_TRUE(status.ok()) << status.message();
  for (const Link& link : linksOf(host)) {
    if (link.a == a && link.b == b) return link;
  }
  ADD_FAILURE() << "no link from " << a << " to " << b;
  return {};
}

TEST(LinkModel, ListsEveryLinkOnceInEachDirection) {
  Host host = smallHost();
  host.fabric = {{3, 4, FabricKind::nvLink, 18, {}}};
  const std::vector<Link> links = linksOf(host);
  ASSERT_EQ(links.size(), 2U * 5 + 2 + 1);  // the tree, the CPUs, the fabric as it is
  EXPECT_EQ(links[0].a, 2);
  EXPECT_EQ(links[0].b, 0);
  EXPECT_EQ(links[1].a, 0);
  EXPECT_EQ(links[10].kind, LinkKind::interCpu);
  EXPECT_EQ(links[12].kind, LinkKind::nvLink);
  for (const Link& link : links) {
    EXPECT_STRNE(link.source, "");
    EXPECT_FALSE(link.assumed);
  }
}

TEST(LinkModel, PciByTheSpeedOfBothEnds) {
  Host host = smallHost();
  PciFacts &gpu = *host.devices[3].pci, &bridge = *host.devices[2].pci;
  EXPECT_NEAR(linkOf(host, 3, 2).gigabytes, pciGigabytes(16, 16), kTolerance);
  gpu.gigatransfers = 2.5, gpu.ablestGigatransfers = 32;
  Link link = linkOf(host, 3, 2);
  EXPECT_NEAR(link.gigabytes, pciGigabytes(2.5, 16), kTolerance) << "what the bridge can is not known";
  EXPECT_TRUE(link.assumed);
  bridge.ablestGigatransfers = 16;
  link = linkOf(host, 3, 2);
  EXPECT_NEAR(link.gigabytes, pciGigabytes(16, 16), kTolerance) << "idle, and limited by the bridge";
  EXPECT_FALSE(link.assumed);
  gpu.width = 8, gpu.ablestWidth = 16;
  EXPECT_NEAR(linkOf(host, 2, 3).gigabytes, pciGigabytes(16, 8), kTolerance) << "lanes do not come back";
  gpu = PciFacts{gpu.busId};
  link = linkOf(host, 3, 2);
  EXPECT_NEAR(link.gigabytes, pciGigabytes(8, 16), kTolerance);
  EXPECT_TRUE(link.assumed);
  EXPECT_THAT(link.source, HasSubstr("assumed 8 GT/s, x16"));
}

TEST(LinkModel, PortsByTheirSpeed) {
  Host host = smallHost();
  EXPECT_EQ(linkOf(host, 6, 5).gigabytes, 50) << "400 Gbit/s";
  EXPECT_EQ(linkOf(host, 6, 5).microseconds, 1.35);
  host.devices[6].port->latency = 0.8;
  EXPECT_EQ(linkOf(host, 5, 6).microseconds, 0.8);
  host.devices[6].port = PortFacts{};
  EXPECT_EQ(linkOf(host, 6, 5).gigabytes, 1.25);
  EXPECT_TRUE(linkOf(host, 6, 5).assumed);
}

TEST(LinkModel, NvLinkByComputeCapability) {
  Host host = smallHost();
  host.fabric = {{3, 4, FabricKind::nvLink, 2, {}}};
  for (const auto& [capability, gigabytes] :
       {std::pair(60, 18.0), {70, 20.0}, {75, 20.0}, {80, 20.0}, {86, 12.0}, {90, 20.6}, {100, 40.1}}) {
    host.devices[3].accelerator->computeCapability = host.devices[4].accelerator->computeCapability =
        capability;
    EXPECT_DOUBLE_EQ(linkOf(host, 3, 4).gigabytes, 2 * gigabytes) << capability;
    EXPECT_FALSE(linkOf(host, 3, 4).assumed);
    EXPECT_EQ(linkOf(host, 3, 4).microseconds, 0.6);
  }
  host.devices[3].accelerator->computeCapability = 80;
  EXPECT_DOUBLE_EQ(linkOf(host, 3, 4).gigabytes, 40) << "the slower end's";
  host.devices[3].accelerator.reset();
  EXPECT_TRUE(linkOf(host, 3, 4).assumed);
  host.fabric[0].bandwidth = 26.5;
  EXPECT_DOUBLE_EQ(linkOf(host, 3, 4).gigabytes, 53);
  EXPECT_FALSE(linkOf(host, 3, 4).assumed);
}

TEST(LinkModel, XgmiByArchitecture) {
  Host host = smallHost();
  host.fabric = {{3, 4, FabricKind::xgmi, 1, {}}};
  for (const auto& [gcn, gigabytes] : {std::pair("906", 24),
                                       {"gfx908", 24},
                                       {"910", 36},
                                       {"gfx90a:sramecc+", 36},
                                       {"940", 48},
                                       {"gfx942", 48},
                                       {"gfx950", 48}}) {
    host.devices[3].accelerator->gcn = host.devices[4].accelerator->gcn = gcn;
    EXPECT_EQ(linkOf(host, 3, 4).gigabytes, gigabytes) << gcn;
    EXPECT_FALSE(linkOf(host, 3, 4).assumed) << gcn;
  }
  host.devices[3].accelerator->gcn = host.devices[4].accelerator->gcn = "gfx1100";
  EXPECT_TRUE(linkOf(host, 3, 4).assumed);
}

TEST(LinkModel, C2cAndSwitches) {
  Host host = smallHost();
  host.devices.push_back({DeviceKind::nvSwitch, Device::kNone, "nvswitch0", {}, {}, {}, {}});
  host.fabric = {{3, 0, FabricKind::c2c, 10, 44.712}, {0, 3, FabricKind::c2c, 10, 44.712},
                 {4, 0, FabricKind::c2c, 10, {}},     {0, 4, FabricKind::c2c, 10, {}},
                 {3, 7, FabricKind::nvLink, 18, {}},  {7, 3, FabricKind::nvLink, 18, {}}};
  EXPECT_DOUBLE_EQ(linkOf(host, 0, 3).gigabytes, 447.12);
  EXPECT_EQ(linkOf(host, 4, 0).gigabytes, 450) << "of the whole device, not of each link";
  EXPECT_TRUE(linkOf(host, 4, 0).assumed);
  EXPECT_DOUBLE_EQ(linkOf(host, 7, 3).gigabytes, 370.8);
  EXPECT_EQ(linkOf(host, 7, 3).microseconds, 0.3) << "half the way";
}

TEST(LinkModel, BetweenCpusByVendorAndModel) {
  struct Case {
    CpuFacts cpu;
    double gigabytes;
    bool assumed;
  };
  const Case cases[] = {{{{}, "x86_64", "GenuineIntel", 6, 0x4f, {}}, 6, false},
                        {{{}, "x86_64", "GenuineIntel", 6, 0x55, {}}, 10, false},
                        {{{}, "x86_64", "GenuineIntel", 6, 0x8f, {}}, 22, false},
                        {{{}, "x86_64", "GenuineIntel", 6, 0xcf, {}}, 40, false},
                        {{{}, "x86_64", "GenuineIntel", 19, 1, {}}, 6, true},
                        {{{}, "x86_64", "GenuineIntel", {}, {}, {}}, 6, true},
                        {{{}, "x86_64", "AuthenticAMD", 175, 1, {}}, 16, false},
                        {{{}, "x86_64", "CentaurHauls", 7, 0x5b, {}}, 9, false},
                        {{{}, "x86_64", "  Shanghai  ", 7, 1, {}}, 6, false},
                        {{{}, "arm64", "", {}, {}, {}}, 6, false},
                        {{{}, "ppc64", "", {}, {}, {}}, 32, false},
                        {{{}, "riscv64", "", {}, {}, {}}, 6, true}};
  Host host = smallHost();
  for (const Case& each : cases) {
    host.devices[0].cpu = each.cpu;
    const Link link = linkOf(host, 0, 1);
    EXPECT_EQ(link.gigabytes, each.gigabytes) << each.cpu.arch << each.cpu.vendor;
    EXPECT_EQ(link.assumed, each.assumed) << each.cpu.arch << each.cpu.vendor;
  }
  EXPECT_EQ(linkOf(host, 1, 0).gigabytes, 16) << "the way back is the other CPU's";
}

TEST(LinkModel, RealFilesAssumeOnlyWhatTheyLeaveOut) {
  ECCL_NEEDS_XML();
  for (const std::string& name : dataFiles()) {
    const Host host = dataHost(name);
    for (const Link& link : linksOf(host)) {
      // Azure's file for NCv4 leaves out how its GPUs are attached.
      const bool leftOut = name == "azure_ncv4.xml" && link.kind == LinkKind::pci;
      EXPECT_EQ(link.assumed, leftOut) << name << ": " << host.devices[link.a].name << " " << link.source;
      EXPECT_GT(link.gigabytes, 0);
    }
  }
}

}  // namespace
}  // namespace eccl::topology
