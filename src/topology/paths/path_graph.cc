#include "topology/paths/path_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace eccl::topology {
namespace {

/// The representative of the set that `item` is in (union-find, halving ways).
int setOf(std::vector<int>& parents, int item) {
  while (parents[item] != item) item = parents[item] = parents[parents[item]];
  return item;
}

}  // namespace

void PathGraph::joinSwitches(const Host& host) {
  crossbars_.resize(kinds_.size());
  std::iota(crossbars_.begin(), crossbars_.end(), 0);
  std::vector<int> sets = crossbars_, firstSwitch(kinds_.size(), Device::kNone);
  std::vector<bool> linked(kinds_.size());
  for (const FabricLink& link : host.fabric) {
    if (kinds_[link.to] != DeviceKind::nvSwitch) continue;  // ways back say the same
    linked[link.to] = true;
    int& first = firstSwitch[link.from];
    if (first == Device::kNone) first = link.to;
    sets[setOf(sets, link.to)] = setOf(sets, first);
  }
  std::map<int, int> numbers;  // of the sets that have links
  for (int i = 0; i < devices(); ++i) {
    if (!linked[i]) continue;
    const auto [found, isNew] = numbers.emplace(setOf(sets, i), crossbarCount_);
    if (isNew) ++crossbarCount_;
    crossbars_[i] = devices() + found->second;
  }
}

PathType PathGraph::typeOf(const Link& link) const {
  const DeviceKind from = kindOf(link.a), to = kindOf(link.b);
  const bool cpu = from == DeviceKind::cpu || to == DeviceKind::cpu;
  switch (link.kind) {
    case LinkKind::network:
      return cpu ? PathType::phb : PathType::loc;
    case LinkKind::interCpu:
      return PathType::sys;
    case LinkKind::nvLink:
    case LinkKind::xgmi:
      return PathType::nvl;
    case LinkKind::c2c:
      return PathType::c2c;
    case LinkKind::pciSwitch:
      return PathType::pxb;
    case LinkKind::pci:
      break;
  }
  if (cpu) return PathType::phb;
  return from == DeviceKind::bridge && to == DeviceKind::bridge ? PathType::pxb : PathType::pix;
}

PathGraph::PathGraph(const Host& host) {
  for (const Device& device : host.devices) kinds_.push_back(device.kind);
  joinSwitches(host);
  std::vector<Link> links = linksOf(host);
  for (Link& link : links) {
    if (link.kind != LinkKind::nvLink) continue;
    link.a = crossbars_[link.a];
    link.b = crossbars_[link.b];
  }
  const auto key = [](const Link& link) { return std::tuple(link.a, link.b, link.kind); };
  std::sort(links.begin(), links.end(),
            [&](const Link& one, const Link& other) { return key(one) < key(other); });
  starts_.resize(kinds_.size() + static_cast<size_t>(crossbarCount_) + 1);
  const Link* last = nullptr;
  for (const Link& link : links) {
    if (last != nullptr && key(*last) == key(link)) {  // parallel: one message may use all
      edges_.back().gigabytes += link.gigabytes;
      edges_.back().microseconds = std::min(edges_.back().microseconds, link.microseconds);
      continue;
    }
    last = &link;
    const PathType type = typeOf(link);
    types_ |= 1U << static_cast<int>(type);
    edges_.push_back({link.b, link.kind, type, link.gigabytes, link.microseconds});
    ++starts_[static_cast<size_t>(link.a) + 1];
  }
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

}  // namespace eccl::topology
