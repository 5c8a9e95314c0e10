// The machine as a picture: CPUs at the top, what hangs below them by PCI, and at the bottom the links that
// bypass PCI.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "commands.h"
#include "svg.h"

namespace eccl::topo {
namespace {

constexpr double kBox = 118, kBoxHeight = 44, kHostGap = 12, kGroupGap = 36, kHostRow = 92, kHostMargin = 28,
                 kHostTop = 78;

struct Style {
  const char *fill, *line;
};

Style styleOf(topology::DeviceKind kind) {
  switch (kind) {
    case topology::DeviceKind::cpu:
      return {"#dbe8f6", "#0b5fa5"};
    case topology::DeviceKind::accelerator:
      return {"#dcf0dd", "#2e7d32"};
    case topology::DeviceKind::nic:
    case topology::DeviceKind::port:
      return {"#fbe8d0", "#c26a00"};
    case topology::DeviceKind::nvSwitch:
      return {"#e9f5e1", "#558b2f"};
    default:
      return {"#eeeeee", "#777777"};
  }
}

const char* colorOf(topology::FabricKind kind) {
  return kind == topology::FabricKind::xgmi  ? "#b23a48"
         : kind == topology::FabricKind::c2c ? "#6a3fa0"
                                             : "#558b2f";
}

class HostDrawing {
 public:
  explicit HostDrawing(const topology::Host& host)
      : host_(host), children_(host.devices.size()), places_(host.devices.size()), links_(hostLinks(host)) {
    for (int i = count() - 1; i >= 0; --i) {  // children stand behind their parents
      const topology::Device& device = at(i);
      if (visible(i) && device.parent != topology::Device::kNone && device.kind != topology::DeviceKind::port &&
          device.kind != topology::DeviceKind::nvSwitch)
        children_[static_cast<size_t>(device.parent)].insert(
            children_[static_cast<size_t>(device.parent)].begin(), i);
    }
  }

  std::string svg() {
    for (int i = 0; i < count(); ++i) deepest_ = std::max(deepest_, visible(i) ? depth(i) : 0);
    for (int i = 0; i < count(); ++i) {
      if (!visible(i) || at(i).parent != topology::Device::kNone ||
          at(i).kind == topology::DeviceKind::nvSwitch)
        continue;
      place(i);
      right_ += kGroupGap - kHostGap;
    }
    between();
    for (int i = 0; i < count(); ++i) {
      if (places_[static_cast<size_t>(i)].there) tree(i);
    }
    const double below = fabric();
    for (int i = 0; i < count(); ++i) {
      if (places_[static_cast<size_t>(i)].there) box(i);
    }
    const double width = std::max(right_ - kGroupGap + kHostMargin, 420.0), height = below + kHostMargin;
    return svg::document(width, height, title(), "Bandwidths are GB/s one way; thicker lines carry more.",
                         body_);
  }

 private:
  struct Place {
    double x = 0, y = 0;  // of the middle of the upper edge
    bool there = false;
  };

  int count() const { return static_cast<int>(host_.devices.size()); }
  const topology::Device& at(int i) const { return host_.devices[static_cast<size_t>(i)]; }
  Place& placeOf(int i) { return places_[static_cast<size_t>(i)]; }

  /// What collectives use, and what is above that.
  bool visible(int i) const {
    const topology::DeviceKind kind = at(i).kind;
    if (kind == topology::DeviceKind::other) return false;
    return kind != topology::DeviceKind::bridge || !children_[static_cast<size_t>(i)].empty();
  }
  int depth(int i) const {
    int result = 0;
    for (int up = at(i).parent; up != topology::Device::kNone; up = at(up).parent) ++result;
    return at(i).kind == topology::DeviceKind::port || at(i).kind == topology::DeviceKind::nvSwitch ? 0
                                                                                                    : result;
  }

  std::string title() const {
    const auto number = [this](topology::DeviceKind kind, const char* one, const char* many) {
      const size_t n = host_.all(kind).size();
      return format("%zu %s", n, n == 1 ? one : many);
    };
    return (host_.name.empty() ? "" : host_.name + ": ") + number(topology::DeviceKind::cpu, "CPU", "CPUs") +
           ", " + number(topology::DeviceKind::accelerator, "accelerator", "accelerators") + ", " +
           number(topology::DeviceKind::nic, "network adapter", "network adapters");
  }

  /// Leaves side by side, everything else above the middle of what hangs below it.
  void place(int i) {
    const auto& below = children_[static_cast<size_t>(i)];
    Place& mine = placeOf(i);
    mine.there = true;
    const bool leaf = below.empty() && at(i).kind != topology::DeviceKind::cpu;
    mine.y = kHostTop + kHostRow * (leaf ? deepest_ : depth(i));
    if (below.empty()) {
      mine.x = right_ + kBox / 2;
      right_ += kBox + kHostGap;
      return;
    }
    for (int child : below) place(child);
    mine.x = (placeOf(below.front()).x + placeOf(below.back()).x) / 2;
  }

  void line(double x1, double y1, double x2, double y2, double width, const char* color) {
    body_ += svg::line(x1, y1, x2, y2, width, color);
  }
  void label(double x, double y, const std::string& what, const char* color) {
    body_ += svg::label(x, y, what, color);
  }

  void between() {
    int before = topology::Device::kNone;
    for (int cpu : host_.all(topology::DeviceKind::cpu)) {
      const auto link = links_.tree.find({before, cpu});
      if (link != links_.tree.end()) {
        const Place &a = placeOf(before), &b = placeOf(cpu);
        const double y = a.y + kBoxHeight / 2, width = svg::thickness(link->second.gigabytes);
        line(a.x, y, b.x, y, width, "#0b5fa5");
        label((a.x + b.x) / 2, y - 6, format("%.1f%s", link->second.gigabytes, link->second.assumed ? "?" : ""),
              "#0b5fa5");
      }
      before = cpu;
    }
  }

  void tree(int i) {
    const int parent = at(i).parent;
    const auto link = links_.tree.find({i, parent});
    if (parent == topology::Device::kNone || link == links_.tree.end()) return;
    const Place &mine = placeOf(i), &up = placeOf(parent);
    const double bend = up.y + kBoxHeight + 16;
    body_ += format(
        "<path d=\"M%.1f %.1f V%.1f H%.1f V%.1f\" stroke=\"#777777\" stroke-width=\"%.1f\" fill=\"none\"/>\n",
        up.x, up.y + kBoxHeight, bend, mine.x, mine.y, svg::thickness(link->second.gigabytes));
    label(mine.x, mine.y - 8, format("%.1f%s", link->second.gigabytes, link->second.assumed ? "?" : ""),
          "#555555");
  }

  void box(int i) {
    const topology::Device& device = at(i);
    const Place& mine = placeOf(i);
    const Style style = styleOf(device.kind);
    body_ += format(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" rx=\"5\" fill=\"%s\" stroke=\"%s\"/>\n",
        mine.x - kBox / 2, mine.y, kBox, kBoxHeight, style.fill, style.line);
    std::string first = titleOf(host_, i), second = device.name;
    if (device.cpu && !device.cpu->cores.empty()) second = format("%zu cores", device.cpu->cores.size());
    if (device.cpu && device.cpu->cores.empty()) second = device.cpu->vendor;
    if (device.kind == topology::DeviceKind::nic) {
      for (int port = i + 1; port < count(); ++port) {
        if (at(port).kind != topology::DeviceKind::port || at(port).parent != i) continue;
        first = at(port).name;
        if (const std::string speed = speedOf(at(port)); !speed.empty()) first += " " + speed;
        break;
      }
    }
    body_ += svg::text(mine.x, mine.y + 19, first.substr(0, 19), "middle", "font-weight=\"bold\"");
    body_ +=
        svg::text(mine.x, mine.y + 34, second.substr(0, 19), "middle", "font-size=\"10\" fill=\"#444444\"");
  }

  /// Returns where the picture ends.
  double fabric() {
    const double top = kHostTop + kHostRow * deepest_ + kBoxHeight;
    std::set<int> switches;
    std::map<int, double> toSwitches;  // accelerator -> GB/s
    double deepest = top;
    const topology::FabricLink* first = nullptr;  // accelerators, and GB/s of one of its links
    double gigabytesEach = 0;
    for (size_t i = 0; i < host_.fabric.size(); ++i) {
      const topology::FabricLink& link = host_.fabric[i];
      const double carried = links_.fabric[i].gigabytes;
      if (at(link.to).kind == topology::DeviceKind::nvSwitch) {
        switches.insert(link.to);
        toSwitches[link.from] += carried;
      }
      const Place &a = placeOf(link.from), &b = placeOf(link.to);
      if (!a.there || !b.there || link.from > link.to) continue;  // one line for both ways
      const double width = svg::thickness(carried);
      if (at(link.from).kind != topology::DeviceKind::accelerator ||
          at(link.to).kind != topology::DeviceKind::accelerator) {
        line(a.x, a.y + kBoxHeight / 2, b.x, b.y + kBoxHeight / 2, width, colorOf(link.kind));
        label((a.x + b.x) / 2, (a.y + b.y + kBoxHeight) / 2,
              format("%s %.1f", topology::nameOf(link.kind), carried), colorOf(link.kind));
        continue;
      }
      if (first == nullptr) first = &link, gigabytesEach = carried / link.count;
      const double sag = 18 + 0.16 * std::abs(a.x - b.x);
      body_ += format(
          "<path d=\"M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f\" stroke=\"%s\" stroke-width=\"%.1f\" "
          "fill=\"none\" opacity=\"0.75\"><title>%s</title></path>\n",
          a.x, top, a.x, top + sag * 1.33, b.x, top + sag * 1.33, b.x, top, colorOf(link.kind), width,
          svg::escaped(format("%s x%d, %s to %s, %.1f GB/s", topology::nameOf(link.kind), link.count,
                              at(link.from).name.c_str(), at(link.to).name.c_str(), carried))
              .c_str());
      deepest = std::max(deepest, top + sag);
    }
    if (!switches.empty()) {
      double left = 1e9, right = 0;
      const double y = deepest + 46;
      for (const auto& [accelerator, gigabytes] : toSwitches) {
        const Place& place = placeOf(accelerator);
        left = std::min(left, place.x - kBox / 2);
        right = std::max(right, place.x + kBox / 2);
        line(place.x, top, place.x, y, svg::thickness(gigabytes), "#558b2f");
        label(place.x, y - 16, format("%.0f", gigabytes), "#558b2f");
      }
      const Style style = styleOf(topology::DeviceKind::nvSwitch);
      body_ += format(
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"26\" rx=\"5\" fill=\"%s\" stroke=\"%s\"/>\n",
          left, y, right - left, style.fill, style.line);
      body_ += svg::text((left + right) / 2, y + 17, format("NVSwitch ×%zu", switches.size()), "middle",
                         "font-weight=\"bold\"");
      return y + 26;
    }
    if (first == nullptr) return top;
    body_ += svg::text(kHostMargin, deepest + 22,
                       format("%s: lines below the accelerators; one link carries %.1f GB/s",
                              topology::nameOf(first->kind), gigabytesEach),
                       "start", format("fill=\"%s\"", colorOf(first->kind)).c_str());
    return deepest + 26;
  }

  const topology::Host& host_;
  std::vector<std::vector<int>> children_;
  std::vector<Place> places_;
  const HostLinks links_;
  double right_ = kHostMargin;
  int deepest_ = 0;
  std::string body_;
};

}  // namespace

std::string drawing(const topology::Host& host) {
  return HostDrawing(host).svg();
}

}  // namespace eccl::topo
