// The machine as a tree.
#include <algorithm>
#include <cstdio>

#include "commands.h"
#include "topology/formats/host_json.h"

namespace eccl::topo {
namespace {

/// "0-3,8".
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (end > i) text += "-" + std::to_string(numbers[end]);
    i = end + 1;
  }
  return text;
}

class Tree {
 public:
  Tree(const topology::Host& host, bool color)
      : host_(host), color_(color), children_(host.devices.size()), links_(hostLinks(host)) {
    for (size_t i = 0; i < host.devices.size(); ++i) {
      const int parent = host.devices[i].parent;
      if (parent != topology::Device::kNone)
        children_[static_cast<size_t>(parent)].push_back(static_cast<int>(i));
    }
  }

  void print() {
    if (!host_.name.empty()) std::printf("%s\n", host_.name.c_str());
    for (size_t i = 0; i < host_.devices.size(); ++i) {
      if (host_.devices[i].parent == topology::Device::kNone) device(static_cast<int>(i), "", "");
    }
    const std::vector<int> cpus = host_.all(topology::DeviceKind::cpu);
    if (cpus.size() > 1) {
      const topology::Link& link = links_.tree.at({cpus[0], cpus[1]});
      std::printf("between CPUs: %s\n", bandwidth(link).c_str());
    }
    for (const std::string& sentence : host_.unread)
      std::printf("%s %s\n", painted("33", "not known:").c_str(), sentence.c_str());
  }

 private:
  std::string painted(const char* code, const std::string& text) const {
    return color_ ? format("\033[%sm", code) + text + "\033[0m" : text;
  }
  static const char* colorOf(topology::DeviceKind kind) {
    switch (kind) {
      case topology::DeviceKind::cpu:
        return "1;34";
      case topology::DeviceKind::accelerator:
        return "1;32";
      case topology::DeviceKind::nic:
      case topology::DeviceKind::port:
        return "35";
      case topology::DeviceKind::nvSwitch:
        return "32";
      default:
        return "2";
    }
  }
  static std::string bandwidth(const topology::Link& link) {
    return format("%.1f GB/s%s", link.gigabytes,
                  link.assumed ? format(" (assumed: %s)", link.source).c_str() : "");
  }

  std::string line(int index) const {
    const topology::Device& device = host_.devices[static_cast<size_t>(index)];
    const std::string title = titleOf(host_, index);
    std::string text = painted(colorOf(device.kind), title == device.name ? title : device.name + "  " + title);
    if (device.cpu) {
      if (!device.cpu->vendor.empty()) text += "  " + device.cpu->vendor;
      if (!device.cpu->cores.empty()) text += "  cores " + ranges(device.cpu->cores);
    }
    if (const std::string speed = speedOf(device); !speed.empty()) text += "  " + speed;
    if (device.port) {
      for (const std::string* fact : {&device.port->layer, &device.port->interface}) {
        if (!fact->empty() && *fact != device.name) text += "  " + *fact;
      }
      if (!device.port->state.empty())
        text += "  " + (device.port->state == "up" ? "up" : painted("31", device.port->state));
      if (device.port->mtu) text += format("  mtu %d", *device.port->mtu);
    }
    const auto up = links_.tree.find({index, device.parent});
    if (up != links_.tree.end() && device.kind != topology::DeviceKind::port)
      text += "  " + bandwidth(up->second);
    return text;
  }

  void device(int index, const std::string& first, const std::string& rest) {
    std::printf("%s%s\n", first.c_str(), line(index).c_str());
    std::vector<int> below;
    size_t others = 0;
    for (int child : children_[static_cast<size_t>(index)]) {
      if (host_.devices[static_cast<size_t>(child)].kind != topology::DeviceKind::other)
        below.push_back(child);
      else
        ++others;
    }
    for (size_t i = 0; i < host_.fabric.size(); ++i) {
      const topology::FabricLink& link = host_.fabric[i];
      if (link.from != index) continue;
      const topology::Device& to = host_.devices[static_cast<size_t>(link.to)];
      std::printf("%s%s   %s ×%d to %s  %s\n", rest.c_str(), below.empty() ? " " : "│",
                  topology::nameOf(link.kind), link.count, to.name.c_str(),
                  bandwidth(links_.fabric[i]).c_str());
    }
    for (size_t i = 0; i < below.size(); ++i) {
      const bool last = i + 1 == below.size() && others == 0;
      device(below[i], rest + (last ? "└─ " : "├─ "), rest + (last ? "   " : "│  "));
    }
    if (others > 0) std::printf("%s└─ %zu other PCI device%s\n", rest.c_str(), others, others > 1 ? "s" : "");
  }

  const topology::Host& host_;
  const bool color_;
  std::vector<std::vector<int>> children_;
  const HostLinks links_;
};

}  // namespace

int show(const topology::Host& host, const Options& options) {
  if (!options.json) {
    Tree(host, options.color).print();
    return kFine;
  }
  Options asJson = options;
  asJson.format = "json";
  return dump(host, asJson);
}

}  // namespace eccl::topo
