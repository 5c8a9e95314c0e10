// What it takes to look at a whole cluster: 8 accelerators and 8 rails in each host, a three-tier Clos of
// 64-port switches. Argument: hosts. The aim: no worse than n log n for hosts that are alike, and 2,000 in a
// second.
#include <benchmark/benchmark.h>

#include "topology/formats/cluster_json.h"
#include "topology/model/clos.h"
#include "topology/paths/cluster_paths.h"
#include "topology/search/rail_rings.h"

namespace eccl {
namespace {

/// An accelerator, an adapter and a port below a PCIe 5.0 switch for each of 8 rails; two CPUs; NVLink by a
/// switch.
topology::Host railHost() {
  topology::Host host;
  host.name = "rails";
  const auto add = [&](topology::DeviceKind kind, int parent, std::string name) {
    topology::Device& device = host.devices.emplace_back();
    device.kind = kind;
    device.parent = parent;
    device.name = std::move(name);
    if (kind != topology::DeviceKind::cpu && kind != topology::DeviceKind::port &&
        kind != topology::DeviceKind::nvSwitch)
      device.pci = topology::PciFacts{device.name, {}, {}, {}, {}, {}, 32, 32, 16, 16};
    return static_cast<int>(host.devices.size()) - 1;
  };
  for (const char* cpu : {"cpu0", "cpu1"}) {
    add(topology::DeviceKind::cpu, topology::Device::kNone, cpu);
    host.devices.back().cpu = topology::CpuFacts{{}, "x86_64", "GenuineIntel", 6, 143, {}};
  }
  std::vector<int> accelerators;
  for (int r = 0; r < 8; ++r) {
    const int bridge = add(topology::DeviceKind::bridge, r / 4, format("0000:%02x:00.0", 0x41 + r));
    accelerators.push_back(add(topology::DeviceKind::accelerator, bridge, format("0000:%02x:00.0", 1 + r)));
    host.devices.back().accelerator = topology::AcceleratorFacts{r, {}, 90, "", {}, {}};
    const int nic = add(topology::DeviceKind::nic, bridge, format("0000:%02x:00.0", 0x81 + r));
    add(topology::DeviceKind::port, nic, format("mlx5_%d", r));
    host.devices.back().port.emplace().megabits = 400000;
  }
  const int hub = add(topology::DeviceKind::nvSwitch, topology::Device::kNone, "nvswitch0");
  for (int accelerator : accelerators) {
    host.fabric.push_back({accelerator, hub, topology::FabricKind::nvLink, 18, {}});
    host.fabric.push_back({hub, accelerator, topology::FabricKind::nvLink, 18, {}});
  }
  return host;
}

topology::Cluster clusterOf(const benchmark::State& state) {
  topology::ClosShape shape;
  shape.host = railHost();
  shape.hosts = static_cast<int>(state.range(0));
  topology::Cluster cluster = topology::makeClos(shape).take();
  cluster.ranks = topology::allPlaces(cluster);
  return cluster;
}

void load(benchmark::State& state) {
  const std::string text = topology::toJson(clusterOf(state)).take();
  for (auto _ : state) {
    auto cluster =
        topology::parseClusterJson(text, "text", [](const std::string&) { return topology::Host{}; });
    if (!cluster.ok()) state.SkipWithError(cluster.status().message().c_str());
  }
  state.counters["bytes"] = static_cast<double>(text.size());
}

/// As many hosts as ranks would send them, with names and host hashes of their own.
void merge(benchmark::State& state) {
  std::vector<topology::Host> hosts(static_cast<size_t>(state.range(0)), railHost());
  for (size_t i = 0; i < hosts.size(); ++i) {
    hosts[i].name = format("node%zu", i);
    hosts[i].devices[0].cpu->hostHash = i;
  }
  for (auto _ : state) benchmark::DoNotOptimize(topology::mergeHosts(hosts));
}

/// From one accelerator to all others.
void paths(benchmark::State& state) {
  const topology::Cluster cluster = clusterOf(state);
  const std::vector<topology::RankPlace> others(cluster.ranks.begin() + 8, cluster.ranks.end());
  for (auto _ : state) benchmark::DoNotOptimize(topology::ClusterPaths(cluster).from(cluster.ranks[0], others));
  state.counters["paths"] = static_cast<double>(others.size());
}

/// The bound and the rings on rails.
void search(benchmark::State& state) {
  const topology::Cluster cluster = clusterOf(state);
  for (auto _ : state) {
    auto rings = topology::searchRailRings(cluster);
    if (!rings.ok() && cluster.hosts.size() > 1) state.SkipWithError(rings.status().message().c_str());
  }
}

BENCHMARK(load)->Arg(1)->Arg(64)->Arg(2000)->Unit(benchmark::kMillisecond);
BENCHMARK(merge)->Arg(1)->Arg(64)->Arg(2000)->Unit(benchmark::kMillisecond);
BENCHMARK(paths)->Arg(1)->Arg(64)->Arg(2000)->Unit(benchmark::kMillisecond);
BENCHMARK(search)->Arg(1)->Arg(64)->Arg(2000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace eccl

BENCHMARK_MAIN();
