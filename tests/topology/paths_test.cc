#include "topology/paths/paths.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <random>

#include "topology/data_files.h"
#include "topology/model/link_model.h"
#include "topology/paths/path_graph.h"

namespace eccl::topology {
namespace {

using Type = PathType;
constexpr double kNear = 1e-2;
// Of 16 lanes, as link_model_test.cc computes them.
constexpr double kGen3 = 13.23, kGen4 = 26.46;

class Machine {
 public:
  explicit Machine(Host host) : host_(std::move(host)), paths_(host_) {
    const Status status = validate(host_);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  void expect(const char* from, const char* to, Type type, double gigabytes, double microseconds,
              int hops) const {
    ASSERT_NE(host_.find(from), Device::kNone) << from;
    ASSERT_NE(host_.find(to), Device::kNone) << to;
    const Path path = paths_.between(host_.find(from), host_.find(to));
    EXPECT_STREQ(nameOf(path.type), nameOf(type)) << from << " to " << to;
    EXPECT_TRUE(path.gigabytes == gigabytes || std::abs(path.gigabytes - gigabytes) < kNear)
        << from << " to " << to << ": " << path.gigabytes << " GB/s, not " << gigabytes;
    EXPECT_TRUE(path.microseconds == microseconds || std::abs(path.microseconds - microseconds) < 1e-9)
        << from << " to " << to << ": " << path.microseconds << " us, not " << microseconds;
    EXPECT_EQ(path.hops, hops) << from << " to " << to;
  }
  /// Also the way back, which is the same.
  void expectBoth(const char* a, const char* b, Type type, double gigabytes, double microseconds,
                  int hops) const {
    expect(a, b, type, gigabytes, microseconds, hops);
    expect(b, a, type, gigabytes, microseconds, hops);
  }

 private:
  Host host_;
  Paths paths_;
};

TEST(PathTypes, HaveNcclsNamesAndOrder) {
  const char* names[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  for (size_t i = 0; i < std::size(names); ++i) EXPECT_STREQ(nameOf(static_cast<Type>(i)), names[i]);
  EXPECT_EQ(static_cast<int>(Type::dis), 11);
}

TEST(PathsOfRealMachines, AwsP4d) {
  ECCL_NEEDS_XML();
  // Two sockets (Intel 6/85: 10 GB/s between them), each with two bridges at 8 GT/s x16, each with two GPUs and
  // a NIC; every PCI link 13.23 GB/s and 0.5 us.
  const Machine machine(dataHost("aws_p4d-24xl.xml"));
  machine.expect("0000:10:1c.0", "0000:10:1c.0", Type::loc, std::numeric_limits<double>::infinity(), 0, 0);
  machine.expectBoth("0000:10:1c.0", "ffff:ff:01.0", Type::pix, kGen3, 0.5, 1);
  machine.expectBoth("0000:10:1c.0", "0000:10:1d.0", Type::pix, kGen3, 1, 2);  // GPU, bridge, GPU
  machine.expectBoth("0000:10:1c.0", "0000:10:1b.0", Type::pix, kGen3, 1, 2);  // ..., NIC
  machine.expectBoth("0000:10:1c.0", "cpu0", Type::phb, kGen3, 1, 2);
  machine.expectBoth("0000:10:1c.0", "0000:20:1d.0", Type::phb, kGen3, 2, 4);  // by the other bridge of the CPU
  machine.expectBoth("0000:10:1c.0", "0000:a0:1b.0", Type::sys, 10, 2.1, 5);   // and by both CPUs, 0.1 us apart
  machine.expectBoth("cpu0", "cpu1", Type::sys, 10, 0.1, 1);
}

TEST(PathsOfRealMachines, AzureNcv4) {
  ECCL_NEEDS_XML();
  // Four AMD NUMA nodes (16 GB/s), a GPU directly below each, its link unknown: as 8 GT/s x16. eth0, 100 Gbit/s
  // and of unknown latency, is below cpu0 and not on PCI.
  const Machine machine(dataHost("azure_ncv4.xml"));
  machine.expectBoth("0001:00:00.0", "0002:00:00.0", Type::sys, kGen3, 1.1, 3);
  machine.expectBoth("0001:00:00.0", "eth0", Type::phb, 12.5, 1.85, 2);
  machine.expectBoth("0004:00:00.0", "eth0", Type::sys, 12.5, 1.95, 3);
  machine.expectBoth("cpu0", "eth0", Type::phb, 12.5, 1.35, 1);
}

TEST(PathsOfRealMachines, AmdMi250) {
  ECCL_NEEDS_XML();
  // gfx90a: 36 GB/s a link. Rank 0 (32:00.0) has four links to rank 1 (35), one to rank 2 (11), two to rank 6
  // (8e).
  const Machine machine(dataHost("amd_topo_8p1h_4.xml"));
  machine.expectBoth("0000:32:00.0", "0000:35:00.0", Type::nvl, 144, 0.6, 1);
  machine.expectBoth("0000:32:00.0", "0000:11:00.0", Type::nvl, 36, 0.6, 1);
  machine.expectBoth("0000:32:00.0", "0000:8e:00.0", Type::nvl, 72, 0.6, 1);
  // Rank 3 (14:00.0): by rank 1 min(144, 36), by rank 2 min(36, 144).
  machine.expectBoth("0000:32:00.0", "0000:14:00.0", Type::nvb, 36, 1.2, 2);
  // Rank 7 (93:00.0): by rank 6, min(72, 144).
  machine.expectBoth("0000:32:00.0", "0000:93:00.0", Type::nvb, 72, 1.2, 2);
  // mlx5_0: 32, 30, 2e, 22, 24, 26 at 16 GT/s x16, and the port of 200 Gbit/s.
  machine.expectBoth("0000:32:00.0", "0000:26:00.0", Type::pxb, kGen4, 2.5, 5);
  machine.expectBoth("0000:32:00.0", "mlx5_0", Type::pxb, 25, 2.5 + 1.35, 6);
  machine.expectBoth("0000:26:00.0", "mlx5_0", Type::loc, 25, 1.35, 1);
  // mlx5_2 is below the other switch of the same CPU, where rank 2 is: xGMI there, then the same way as above.
  machine.expectBoth("0000:32:00.0", "mlx5_2", Type::pxn, 25, 0.6 + 3.85, 7);
}

TEST(PathsOfRealMachines, AmdMi100WithRepeatedBusIds) {
  ECCL_NEEDS_XML();
  // Two GPUs below bridges of one bus id, 8 GT/s x16: GPU, bridge, c3, bridge, GPU. Both have gfx908's
  // xGMI, 24.
  const Host host = dataHost("amd_topo_4p4h.xml");
  const Machine machine(host);
  EXPECT_NE(host.find("0000:c5:00.0"), host.find("0000:c5:00.0#2"));
  machine.expectBoth("0000:cf:00.0", "0000:c5:00.0#2", Type::pxb, kGen3, 1.5, 3);
  machine.expectBoth("0000:c5:00.0", "0000:c5:00.0#8", Type::pxb, kGen3, 1, 2);
}

Host hostWith(const std::string& inside) {
  Result<Host> host = parseNcclXml("<system version=\"1\">" + inside + "</system>", "t.xml");
  EXPECT_TRUE(host.ok()) << host.status().message();
  return host.ok() ? host.take() : Host{};
}

std::string pci(const std::string& busId, const char* pciClass, const std::string& inside = "") {
  return "<pci busid=\"" + busId + "\" class=\"" + pciClass +
         "\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">" + inside + "</pci>";
}

std::string cpu(int number, const std::string& inside) {
  return "<cpu numaid=\"" + std::to_string(number) + "\" arch=\"arm64\" vendor=\"\">" + inside + "</cpu>";
}

TEST(PathsByNvSwitch, AllSwitchesTogetherAreOneWay) {
  ECCL_NEEDS_XML();
  // Two H100 with 4 switches, 5, 5, 4 and 4 links of 20.6 GB/s: 18 x 20.6 = 370.8. The first switch is a PCI
  // function as well, which leads to no NVLink.
  std::string links;
  for (const auto& [bus, count] : {std::pair(5, 5), {6, 5}, {7, 4}, {8, 4}})
    links += format("<nvlink target=\"0000:%02x:00.0\" count=\"%d\" tclass=\"0x068000\"/>", bus, count);
  const std::string gpu = "<gpu sm=\"90\">" + links + "</gpu>";
  const Machine machine(
      hostWith(cpu(0, pci("0000:01:00.0", "0x030200", gpu) + pci("0000:05:00.0", "0x068000")) +
               cpu(1, pci("0000:02:00.0", "0x030200", gpu))));
  machine.expectBoth("0000:01:00.0", "0000:02:00.0", Type::nvl, 370.8, 0.6, 2);
  machine.expectBoth("0000:01:00.0", "0000:06:00.0", Type::nvl, 370.8, 0.3, 1);
  machine.expectBoth("0000:01:00.0", "0000:05:00.0", Type::nvl, 370.8, 0.3, 1);
  machine.expectBoth("cpu0", "0000:05:00.0", Type::phb, kGen4, 0.5, 1);
  machine.expectBoth("0000:05:00.0", "0000:08:00.0", Type::loc, std::numeric_limits<double>::infinity(), 0, 0);
  machine.expectBoth("cpu1", "0000:05:00.0", Type::sys, 6, 0.6, 2);
}

TEST(PathsByC2c, GraceHopper) {
  ECCL_NEEDS_XML();
  // Two superchips of one host, C2C of 10 x 44.712 GB/s; a NIC below the first CPU, not below the GPU's bridge.
  const auto gpu = [](const char* bridge, const char* busId) {
    return pci(bridge, "0x060400",
               pci(busId, "0x030200", "<gpu sm=\"90\"><c2c bw=\"44712\" count=\"10\"/></gpu>"));
  };
  const std::string nic = "<nic><net name=\"mlx5_0\" speed=\"400000\" latency=\"0.7\"/></nic>";
  const Machine machine(
      hostWith(cpu(0, gpu("0000:01:00.0", "0000:02:00.0") + pci("0000:03:00.0", "0x020700", nic)) +
               cpu(1, gpu("0001:01:00.0", "0001:02:00.0"))));
  machine.expectBoth("0000:02:00.0", "cpu0", Type::c2c, 447.12, 0.6, 1);
  machine.expectBoth("0000:02:00.0", "0000:03:00.0", Type::p2c, kGen4, 1.1, 2);
  machine.expectBoth("0000:02:00.0", "mlx5_0", Type::p2c, kGen4, 1.8, 3);
  // Arm: 6 GB/s between CPUs. C2C, CPU to CPU, C2C; the way over PCI would be as narrow.
  machine.expectBoth("0000:02:00.0", "0001:02:00.0", Type::sys, 6, 1.3, 3);
  machine.expectBoth("0001:02:00.0", "mlx5_0", Type::sys, 6, 0.6 + 0.1 + 0.5 + 0.7, 4);
}

TEST(PathsByPciSwitch, JoinedBridgesAreAsOne) {
  ECCL_NEEDS_XML();
  const auto half = [](const char* bridge, const char* other, const char* busId) {
    return pci(bridge, "0x060400", "<pcilink target=\"" + std::string(other) + "\"/>" + pci(busId, "0x030200"));
  };
  const Machine machine(hostWith(cpu(0, half("0000:01:00.0", "0000:03:00.0", "0000:02:00.0")) +
                                 cpu(1, half("0000:03:00.0", "0000:01:00.0", "0000:04:00.0"))));
  machine.expectBoth("0000:02:00.0", "0000:04:00.0", Type::pxb, kGen4, 1, 3);
}

TEST(PathsApart, GoByTheNetworkOrNotAtAll) {
  ECCL_NEEDS_XML();
  // Bridges below no CPU that is known: three islands, two of them with ports.
  const auto island = [](const char* bridge, const char* gpu, const char* nic, const char* net) {
    return pci(bridge, "0x060400", pci(gpu, "0x030200") + (nic == nullptr ? "" : pci(nic, "0x020000", net)));
  };
  const Machine machine(hostWith(
      island("0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "<nic><net name=\"a\" speed=\"100000\"/></nic>") +
      island("0000:11:00.0", "0000:12:00.0", "0000:13:00.0", "<nic><net name=\"b\" speed=\"200000\"/></nic>") +
      island("0000:21:00.0", "0000:22:00.0", nullptr, nullptr)));
  // GPU, bridge, NIC, port; the network; port, NIC, bridge, GPU.
  machine.expectBoth("0000:02:00.0", "0000:12:00.0", Type::net, 12.5, 2 * (1 + 1.35), 7);
  machine.expectBoth("a", "b", Type::net, std::numeric_limits<double>::infinity(), 0, 1);
  machine.expectBoth("0000:02:00.0", "0000:22:00.0", Type::dis, 0, std::numeric_limits<double>::infinity(), 0);
}

/// The definition of paths.h, word by word: all ways without repetition, each judged by itself.
class Oracle {
 public:
  explicit Oracle(const PathGraph& graph) : graph_(graph) {}

  std::vector<Path> from(int source) {
    best_.assign(static_cast<size_t>(graph_.devices()), Path{});
    source_ = source;
    for (int device = 0; device < graph_.devices(); ++device) {
      if (graph_.crossbarOf(device) == graph_.crossbarOf(source))
        best_[device] = {Type::loc, std::numeric_limits<double>::infinity(), 0, 0};
    }
    visited_.assign(static_cast<size_t>(graph_.nodes()), false);
    way_.clear();
    visited_[source] = true;
    extend(source);
    if (graph_.crossbarOf(source) != source) extend(graph_.crossbarOf(source));
    return best_;
  }

 private:
  struct Step {
    int from;
    const PathEdge* edge;
  };
  bool is(int node, DeviceKind kind) const { return graph_.kindOf(node) == kind; }
  bool isNetwork(int node) const { return is(node, DeviceKind::nic) || is(node, DeviceKind::port); }

  void extend(int node) {
    visited_[node] = true;
    for (const PathEdge* edge = graph_.begin(node); edge != graph_.end(node); ++edge) {
      if (visited_[edge->to]) continue;
      way_.push_back({node, edge});
      judge();
      extend(edge->to);
      way_.pop_back();
    }
    visited_[node] = false;
  }

  void judge() {
    const int end = way_.back().edge->to;
    double gigabytes = std::numeric_limits<double>::infinity(), microseconds = 0;
    for (const Step& step : way_) {
      gigabytes = std::min(gigabytes, step.edge->gigabytes);
      microseconds += step.edge->microseconds;
    }
    for (const Type type : types(end)) {
      for (int device = 0; device < graph_.devices(); ++device) {
        if (device != end && !(end >= graph_.devices() && graph_.crossbarOf(device) == end)) continue;
        const int hops = static_cast<int>(way_.size());
        Path& best = best_[device];
        if (graph_.crossbarOf(device) == graph_.crossbarOf(source_) || type > best.type) continue;
        if (type < best.type) best = {type, gigabytes, microseconds, hops};
        best.gigabytes = std::max(best.gigabytes, gigabytes);
        if (std::pair(microseconds, hops) < std::pair(best.microseconds, best.hops)) {
          best.microseconds = microseconds;
          best.hops = hops;
        }
      }
    }
  }

  static bool isTree(const PathEdge& edge) {
    return edge.kind == LinkKind::pci || edge.kind == LinkKind::network || edge.kind == LinkKind::pciSwitch;
  }
  /// Whether all links of way_[first, last) are so.
  static bool all(const std::vector<Step>& way, size_t first, size_t last,
                  const std::function<bool(const PathEdge&)>& so) {
    for (size_t i = first; i < last; ++i) {
      if (!so(*way[i].edge)) return false;
    }
    return true;
  }

  /// What types the way has; none if it is no way.
  std::vector<Type> types(int end) const {
    const size_t links = way_.size();
    std::vector<size_t> accelerators;  // after how many links it is at one, ends excepted
    for (size_t i = 1; i < links; ++i) {
      if (is(way_[i].from, DeviceKind::accelerator)) accelerators.push_back(i);
    }
    const auto nvl = [](const PathEdge& edge) { return edge.type == Type::nvl; };
    const auto near = [](const PathEdge& edge) { return edge.type <= Type::pxb && isTree(edge); };
    const auto below = [](const PathEdge& edge) { return isTree(edge); };
    const bool out = is(source_, DeviceKind::accelerator) && isNetwork(end);
    const bool in = isNetwork(source_) && is(end, DeviceKind::accelerator);
    std::vector<Type> found;
    if (accelerators.empty()) {
      Type type = Type::loc;
      for (const Step& step : way_) type = std::max(type, step.edge->type);
      found.push_back(type);
      int cpus = 0;
      for (size_t i = 1; i < links; ++i) cpus += is(way_[i].from, DeviceKind::cpu) ? 1 : 0;
      const bool leaves = out && way_.front().edge->kind == LinkKind::c2c && all(way_, 1, links, below);
      const bool enters = in && way_.back().edge->kind == LinkKind::c2c && all(way_, 0, links - 1, below);
      if (cpus == 1 && (leaves || enters)) found.push_back(Type::p2c);
    } else if (accelerators.size() == 1) {
      const size_t at = accelerators[0];
      const bool both = is(source_, DeviceKind::accelerator) && is(end, DeviceKind::accelerator);
      if (both && links == 2 && all(way_, 0, 2, nvl)) found.push_back(Type::nvb);
      if (out && all(way_, 0, at, nvl) && all(way_, at, links, near)) found.push_back(Type::pxn);
      if (in && all(way_, 0, at, near) && all(way_, at, links, nvl)) found.push_back(Type::pxn);
    }
    return found;
  }

  const PathGraph& graph_;
  int source_ = 0;
  std::vector<Path> best_;
  std::vector<bool> visited_;
  std::vector<Step> way_;
};

/// A small host of any shape that is valid, with links of any bandwidth.
Host randomHost(std::mt19937_64& random) {
  const auto below = [&](size_t limit) { return static_cast<int>(random() % limit); };
  Host host;
  const int cpus = 1 + below(2), devices = cpus + 4 + below(4);
  std::vector<int> parents, accelerators, hubs;
  for (int i = 0; i < devices; ++i) {
    Device device;
    device.name = i < cpus ? "cpu" + std::to_string(i) : format("0000:%02x:00.0", i);
    if (i < cpus) {
      device.kind = DeviceKind::cpu;
      device.cpu = CpuFacts{{}, below(2) == 0 ? "arm64" : "ppc64", "", {}, {}, {}};
      parents.push_back(i);
      hubs.push_back(i);
      host.devices.push_back(device);
      continue;
    }
    static constexpr DeviceKind kKinds[] = {DeviceKind::bridge,      DeviceKind::bridge,
                                            DeviceKind::accelerator, DeviceKind::accelerator,
                                            DeviceKind::nic,         DeviceKind::nvSwitch};
    device.kind = kKinds[below(std::size(kKinds))];
    device.parent = parents[static_cast<size_t>(below(parents.size()))];
    device.pci = PciFacts{device.name, {}, {}, {}, {}, {}, below(2) == 0 ? 8.0 : 16.0, 0, 1 << below(5), 0};
    if (device.kind == DeviceKind::bridge) parents.push_back(i);
    if (device.kind == DeviceKind::accelerator) accelerators.push_back(i);
    if (device.kind == DeviceKind::nvSwitch) hubs.push_back(i);
    host.devices.push_back(device);
  }
  for (int i = 0; i < devices; ++i) {
    if (host.devices[i].kind != DeviceKind::nic) continue;
    Device port;
    port.kind = DeviceKind::port;
    port.parent = i;
    port.name = "net" + std::to_string(i);
    port.port.emplace().megabits = 100000 << below(3);
    host.devices.push_back(port);
  }
  for (const int a : accelerators) {
    for (const int b : accelerators) {
      if (a != b && below(3) == 0)
        host.fabric.push_back({a, b, FabricKind::nvLink, 1 + below(4), 10.0 + below(3)});
    }
    for (const int hub : hubs) {
      if (below(3) != 0) continue;
      const FabricKind kind = host.devices[hub].kind == DeviceKind::cpu ? FabricKind::c2c : FabricKind::nvLink;
      const FabricLink link{a, hub, kind, 1 + below(4), 20.0 + below(9)};
      host.fabric.push_back(link);
      host.fabric.push_back({hub, a, kind, link.count, link.bandwidth});
    }
  }
  return host;
}

TEST(PathsOfRandomHosts, AreTheBestOfAllWays) {
  std::mt19937_64 random(7);
  int seen[12] = {};
  for (int round = 0; round < 3000; ++round) {
    const Host host = randomHost(random);
    ASSERT_TRUE(validate(host).ok()) << validate(host).message();
    const PathGraph graph(host);
    const Paths paths(host);
    Oracle oracle(graph);
    for (int source = 0; source < graph.devices(); ++source) {
      const std::vector<Path> found = paths.from(source), expected = oracle.from(source);
      for (int to = 0; to < graph.devices(); ++to) {
        ++seen[static_cast<size_t>(expected[to].type)];
        ASSERT_STREQ(nameOf(found[to].type), nameOf(expected[to].type))
            << "round " << round << ", " << source << " to " << to << "\n"
            << toNcclXml(host);
        ASSERT_EQ(found[to].gigabytes, expected[to].gigabytes) << round << " " << source << " " << to;
        ASSERT_NEAR(found[to].microseconds, expected[to].microseconds, 1e-9)
            << round << " " << source << " " << to;
        ASSERT_EQ(found[to].hops, expected[to].hops) << round << " " << source << " " << to;
      }
    }
  }
  for (const Type type : {Type::loc, Type::nvl, Type::nvb, Type::c2c, Type::pix, Type::pxb, Type::p2c,
                          Type::pxn, Type::phb, Type::sys})
    EXPECT_GT(seen[static_cast<size_t>(type)], 100) << nameOf(type) << " does not come up";
}

double secondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(PathsTiming, AllPairsOfAServer) {
  ECCL_NEEDS_XML();
  const Host host = dataHost("amd_topo_8p1h_4.xml");  // 8 accelerators, 8 NICs with a port each, 22 bridges
  std::vector<int> ends = host.all(DeviceKind::accelerator);
  for (const int port : host.all(DeviceKind::port)) ends.push_back(port);
  ASSERT_EQ(ends.size(), 16U);
  const double seconds = secondsOf([&] {
    const Paths paths(host);
    for (const int end : ends) EXPECT_EQ(paths.from(end).size(), host.devices.size());
  });
  RecordProperty("microseconds", static_cast<int>(seconds * 1e6));
  EXPECT_LT(seconds, 0.01);
}

TEST(PathsTiming, AHostOfAHundredThousandDevices) {
  Host host;
  for (int i = 0; i < 8; ++i) {
    Device cpu;
    cpu.kind = DeviceKind::cpu;
    cpu.name = "cpu" + std::to_string(i);
    cpu.cpu = CpuFacts{{}, "arm64", "", {}, {}, {}};
    host.devices.push_back(cpu);
  }
  // Bridges below bridges, 997 side by side, 40 deep; then adapters and accelerators below the lower half of
  // them, the accelerators linked to a chain.
  constexpr int kDevices = 100000, kBridges = 40000;
  int last = Device::kNone;
  for (int i = 8; i < kDevices; ++i) {
    Device device;
    device.kind = i < kBridges ? DeviceKind::bridge : i % 5 == 0 ? DeviceKind::nic : DeviceKind::accelerator;
    device.parent = i < 8 + 997 ? i % 8 : i < kBridges ? i - 997 : kBridges / 2 + i % (kBridges / 2);
    device.name = format("%x:00:00.0", i);
    device.pci = PciFacts{device.name, {}, {}, {}, {}, {}, 16, 0, 16, 0};
    host.devices.push_back(device);
    if (device.kind != DeviceKind::accelerator) continue;
    if (last != Device::kNone) {
      host.fabric.push_back({last, i, FabricKind::nvLink, 4, {}});
      host.fabric.push_back({i, last, FabricKind::nvLink, 4, {}});
    }
    last = i;
  }
  const Status status = validate(host);
  ASSERT_TRUE(status.ok()) << status.message();
  double build = 0, search = 0;
  std::vector<Path> paths;
  build = secondsOf([&] {
            const Paths all(host);
            search = secondsOf([&] { paths = all.from(last); });
          }) -
          search;
  RecordProperty("buildMilliseconds", static_cast<int>(build * 1e3));
  RecordProperty("searchMilliseconds", static_cast<int>(search * 1e3));
  std::printf("100000 devices: graph %.0f ms, search %.0f ms\n", build * 1e3, search * 1e3);
  for (const Path& path : paths) ASSERT_LT(path.type, Type::net);
  EXPECT_LT(search, 1);
  EXPECT_LT(build, 1);
}

}  // namespace
}  // namespace eccl::topology
