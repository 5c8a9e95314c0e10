// A cluster's tiers as a picture: hosts at the bottom, above them the switches that join them, tier by tier.
#include <algorithm>
#include <map>
#include <set>

#include "cluster.h"
#include "svg.h"
#include "topology/search/switch_parts.h"

namespace eccl::topo {
namespace {

constexpr double kColumn = 250, kGap = 30, kMargin = 28, kTop = 84, kBand = 58, kRow = 132;
constexpr size_t kMaxColumns = 6;  // what is left out is said
constexpr double kCablesOfALine =
    16;  // lines are of so many cables that they would all be of the greatest thickness
// Of rails, in turn; none: grey.
constexpr const char* kColors[] = {"#0b5fa5", "#c26a00", "#2e7d32", "#b23a48",
                                   "#6a3fa0", "#00838f", "#8d6e00", "#5d4037"};

/// "2.4 TB/s".
std::string speed(double gigabytes) {
  return gigabytes < 1000 ? format("%g GB/s", gigabytes) : format("%.3g TB/s", gigabytes / 1000);
}

std::string range(const std::string& first, const std::string& last) {
  return first == last ? first : first + " to " + last;
}

/// Switches of one tier that are joined below it (or are in one pod), or hosts with common leaves (tier 0).
struct Band {
  int tier = 0;
  std::vector<int> members;  // indices of hosts or switches
  std::set<size_t> columns;  // above which it is drawn
  struct Cables {
    int64_t count = 0;
    double gigabytes = 0;
  };
  std::map<size_t, Cables> up;  // by band
  double below = 0, above = 0;  // GB/s in all
  double left = 0, right = 0, y = 0;
};

class ClusterDrawing {
 public:
  explicit ClusterDrawing(const topology::Cluster& cluster) : cluster_(cluster) {
    for (const topology::Switch& sw : cluster.switches) tiers_ = std::max(tiers_, sw.tier);
    makeBands();
    wire();
  }

  std::string svg() {
    const size_t shown = std::min(columns_, kMaxColumns);
    const double width = std::max(2 * kMargin + static_cast<double>(shown) * (kColumn + kGap) - kGap, 640.0);
    for (Band& band : bands_) {
      std::vector<size_t> places;
      for (size_t column : band.columns) {
        if (isShown(column)) places.push_back(placeOf(column));
      }
      band.y = kTop + kRow * (tiers_ - band.tier);
      if (places.empty()) continue;
      band.left = kMargin + static_cast<double>(places.front()) * (kColumn + kGap);
      band.right = kMargin + static_cast<double>(places.back()) * (kColumn + kGap) + kColumn;
    }
    for (const Band& band : bands_) lines(band);
    for (const Band& band : bands_) box(band);
    if (columns_ > kMaxColumns)
      body_ += svg::text(kMargin + (kMaxColumns - 1) * (kColumn + kGap) - kGap / 2,
                         kTop + kRow * tiers_ + kBand / 2, "…", "middle", "font-size=\"18\"");
    const double height = kTop + kRow * tiers_ + kBand + kMargin;
    return svg::document(width, height, title(), subtitle(), body_);
  }

 private:
  bool isShown(size_t column) const {
    return columns_ <= kMaxColumns || column + 1 < kMaxColumns || column + 1 == columns_;
  }
  size_t placeOf(size_t column) const { return std::min(column, kMaxColumns - 1); }
  static bool visible(const Band& band) { return band.right > 0; }

  void makeBands() {
    const topology::SwitchParts leaves = topology::joinedWithHosts(cluster_, 1);
    bandOfHost_.resize(cluster_.hosts.size());
    bandOfSwitch_.resize(cluster_.switches.size());
    std::map<std::pair<int, size_t>, size_t> known;
    const auto bandOf = [&](int tier, size_t part) {
      const auto [place, isNew] = known.emplace(std::pair(tier, part), bands_.size());
      if (isNew) bands_.emplace_back().tier = tier;
      return place->second;
    };
    std::map<size_t, size_t> columns;  // by part
    for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
      const size_t column = columns.emplace(leaves.ofHost[h], columns.size()).first->second;
      bandOfHost_[h] = bandOf(0, column);
      bands_[bandOfHost_[h]].members.push_back(static_cast<int>(h));
      bands_[bandOfHost_[h]].columns.insert(column);
    }
    columns_ = columns.size();
    for (int tier = 1; tier <= tiers_; ++tier) {
      const topology::SwitchParts parts = topology::joinedWithHosts(cluster_, tier);
      std::map<size_t, std::set<size_t>> above;  // columns by part
      for (size_t h = 0; h < cluster_.hosts.size(); ++h)
        above[parts.ofHost[h]].insert(columns.at(leaves.ofHost[h]));
      for (size_t s = 0; s < cluster_.switches.size(); ++s) {
        if (cluster_.switches[s].tier != tier) continue;
        bandOfSwitch_[s] = bandOf(tier, parts.ofSwitch[s]);
        Band& band = bands_[bandOfSwitch_[s]];
        band.members.push_back(static_cast<int>(s));
        band.columns = above[parts.ofSwitch[s]];
      }
    }
  }

  void wire() {
    const auto join = [&](size_t a, size_t b, int count, double gigabytes) {
      if (bands_[a].tier == bands_[b].tier) return;
      const size_t low = bands_[a].tier < bands_[b].tier ? a : b, high = low == a ? b : a;
      Band::Cables& cables = bands_[low].up[high];
      cables.count += count;
      cables.gigabytes += count * gigabytes;
      bands_[low].above += count * gigabytes;
      bands_[high].below += count * gigabytes;
    };
    for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
      for (const topology::Uplink& link : cluster_.hosts[h].uplinks)
        join(bandOfHost_[h], bandOfSwitch_[static_cast<size_t>(link.toSwitch)], 1, link.gigabytes);
    }
    for (const topology::Trunk& trunk : cluster_.trunks)
      join(bandOfSwitch_[static_cast<size_t>(trunk.a)], bandOfSwitch_[static_cast<size_t>(trunk.b)],
           trunk.count, trunk.gigabytes);
  }

  std::string title() const {
    return (cluster_.name.empty() ? "" : cluster_.name + ": ") +
           format("%zu hosts, %zu accelerators, %zu switches in %d tiers", cluster_.hosts.size(),
                  accelerators(), cluster_.switches.size(), tiers_);
  }
  std::string subtitle() const {
    std::string text =
        "All cables between two boxes are one line: number, and GB/s one way in all; thicker lines carry more.";
    if (columns_ > kMaxColumns) text += format(" %zu groups of hosts are not drawn.", columns_ - kMaxColumns);
    return text;
  }
  size_t accelerators() const {
    std::vector<size_t> ofType;
    for (const topology::Host& type : cluster_.types)
      ofType.push_back(type.all(topology::DeviceKind::accelerator).size());
    size_t count = 0;
    for (const topology::ClusterHost& host : cluster_.hosts) count += ofType[static_cast<size_t>(host.type)];
    return count;
  }

  void lines(const Band& band) {
    if (!visible(band)) return;
    for (const auto& [index, cables] : band.up) {
      const Band& high = bands_[index];
      if (!visible(high)) continue;
      const double x = (band.left + band.right) / 2, middle = (band.y + high.y + kBand) / 2;
      body_ +=
          svg::line(x, band.y, x, high.y + kBand, svg::thickness(cables.gigabytes / kCablesOfALine), "#777777");
      body_ += svg::label(
          x, middle + 4,
          format("%lld cables, ", static_cast<long long>(cables.count)) + speed(cables.gigabytes), "#333333");
    }
    if (band.tier > 0 && band.above > 0 && band.below > band.above * 1.001)
      body_ += svg::label((band.left + band.right) / 2, band.y - 14,
                          format("oversubscribed %.3g:1", band.below / band.above), "#b23a48");
  }

  void box(const Band& band) {
    if (!visible(band)) return;
    const bool hosts = band.tier == 0;
    body_ += format(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" rx=\"5\" fill=\"%s\" stroke=\"%s\"/>\n",
        band.left, band.y, band.right - band.left, kBand, hosts ? "#dcf0dd" : "#dbe8f6",
        hosts ? "#2e7d32" : "#0b5fa5");
    const double middle = (band.left + band.right) / 2;
    const auto nameOf = [&](int member) {
      return hosts ? cluster_.hosts[static_cast<size_t>(member)].name
                   : cluster_.switches[static_cast<size_t>(member)].name;
    };
    const size_t count = band.members.size();
    const std::string what = hosts ? (count == 1 ? "host" : "hosts")
                                   : format("switch%s, tier %d", count == 1 ? "" : "es", band.tier);
    body_ +=
        svg::text(middle, band.y + 18, format("%zu %s", count, what.c_str()), "middle", "font-weight=\"bold\"");
    body_ += svg::text(middle, band.y + 33, range(nameOf(band.members.front()), nameOf(band.members.back())),
                       "middle", "font-size=\"10\" fill=\"#444444\"");
    if (hosts)
      typesOf(band, middle);
    else
      switchesOf(band, middle);
  }

  void typesOf(const Band& band, double middle) {
    std::map<int, int> counts;
    for (int host : band.members) ++counts[cluster_.hosts[static_cast<size_t>(host)].type];
    std::string text;
    for (const auto& [type, count] : counts)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " × " +
              cluster_.types[static_cast<size_t>(type)].name;
    body_ += svg::text(middle, band.y + 48, text.size() > 48 ? text.substr(0, 45) + "…" : text, "middle",
                       "font-size=\"10\" fill=\"#444444\"");
  }

  /// Each as a small box in the colour of its rail, as many as fit.
  void switchesOf(const Band& band, double middle) {
    const double side = 9, step = 13;
    const auto fit = static_cast<size_t>((band.right - band.left - 40) / step);
    const size_t count = std::min(band.members.size(), fit);
    double x = middle - static_cast<double>(count) * step / 2;
    for (size_t i = 0; i < count; ++i, x += step) {
      const topology::Switch& sw = cluster_.switches[static_cast<size_t>(band.members[i])];
      body_ += format(
          "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.0f\" height=\"%.0f\" fill=\"%s\"><title>%s</title></rect>\n",
          x, band.y + 41, side, side,
          sw.rail ? kColors[static_cast<size_t>(*sw.rail) % std::size(kColors)] : "#777777",
          svg::escaped(sw.name + (sw.rail ? format(", rail %d", *sw.rail) : "")).c_str());
    }
    if (count < band.members.size()) body_ += svg::text(x + 2, band.y + 50, "…", "start");
  }

  const topology::Cluster& cluster_;
  int tiers_ = 0;
  size_t columns_ = 0;
  std::vector<Band> bands_;
  std::vector<size_t> bandOfHost_, bandOfSwitch_;
  std::string body_;
};

}  // namespace

std::string drawing(const topology::Cluster& cluster) {
  return ClusterDrawing(cluster).svg();
}

}  // namespace eccl::topo
