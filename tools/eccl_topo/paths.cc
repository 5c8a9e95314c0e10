// The ways between devices, as a table.
#include "topology/paths/paths.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace eccl::topo {
namespace {

/// What messages come from and go to.
std::vector<int> ends(const topology::Host& host) {
  std::vector<int> result;
  for (topology::DeviceKind kind :
       {topology::DeviceKind::accelerator, topology::DeviceKind::port, topology::DeviceKind::cpu}) {
    for (int device : host.all(kind)) result.push_back(device);
  }
  // An adapter whose ports nobody named stands for them.
  for (int nic : host.all(topology::DeviceKind::nic)) {
    const bool hasPorts = std::any_of(host.devices.begin(), host.devices.end(), [&](const topology::Device& d) {
      return d.kind == topology::DeviceKind::port && d.parent == nic;
    });
    if (!hasPorts) result.push_back(nic);
  }
  return result;
}

std::string cell(const topology::Path& path) {
  if (path.type == topology::PathType::loc || path.type == topology::PathType::dis)
    return topology::nameOf(path.type);
  return format("%s %.1f", topology::nameOf(path.type), path.gigabytes);
}

}  // namespace

int paths(const topology::Host& host, const Options& options) {
  const topology::Paths all(host);
  const std::vector<int> devices = ends(host);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  if (!options.json) {
    std::printf("type and GB/s one way, from the device at the left to that at the top\n\n%-5s", "");
    for (size_t i = 0; i < devices.size(); ++i) std::printf(" %9s", format("[%zu]", i).c_str());
    std::printf("\n");
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::vector<topology::Path> from = all.from(devices[i]);
    const std::string& name = host.devices[static_cast<size_t>(devices[i])].name;
    if (!options.json) std::printf("%-5s", format("[%zu]", i).c_str());
    for (int to : devices) {
      const topology::Path& path = from[static_cast<size_t>(to)];
      if (!options.json) {
        std::printf(" %9s", cell(path).c_str());
        continue;
      }
      nlohmann::ordered_json entry{{"from", name},
                                   {"to", host.devices[static_cast<size_t>(to)].name},
                                   {"type", topology::nameOf(path.type)}};
      if (path.type != topology::PathType::loc && path.type != topology::PathType::dis) {
        entry["gigabytes"] = path.gigabytes;
        entry["microseconds"] = path.microseconds;
        entry["hops"] = path.hops;
      }
      json.push_back(std::move(entry));
    }
    if (!options.json) std::printf("\n");
  }
  if (options.json) {
    std::printf("%s\n", json.dump(1).c_str());
    return kFine;
  }
  std::printf("\n");
  for (size_t i = 0; i < devices.size(); ++i) {
    const topology::Device& device = host.devices[static_cast<size_t>(devices[i])];
    const std::string title = titleOf(host, devices[i]);
    std::printf("[%zu] %s%s\n", i, device.name.c_str(), title == device.name ? "" : (", " + title).c_str());
  }
  return kFine;
}

}  // namespace eccl::topo
