#include "transport/flows/flow_planner.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace eccl::transport {
namespace {

/// Ranks find out their ways at about the same time. One that is late finds the others' flows placed.
constexpr Duration kSettled = std::chrono::milliseconds(30), kLongest = std::chrono::milliseconds(200);
/// Those who see a change see it within this time: it is one.
constexpr Duration kOneChange = std::chrono::milliseconds(700);
/// Where there are more flows, those that have a way keep it: it takes rank 0 too long to think of all.
constexpr size_t kMostMoved = 1024;
/// A flow looks for more ways so often. Each time the ports that it has found miss a given one of four ways
/// with a chance of 10 %.
constexpr int kMostMore = 2;

/// Of a rank's flows; more than 64 connections with 32 sockets have.
constexpr uint64_t kMostNames = 4096;

/// A link is named by the router that it leads to, as that router calls itself there.
LinkName linkOf(const SocketAddress& hop) {
  return std::hash<std::string>()(hop.hostText());
}
std::vector<LinkName> linksOf(const FlowWay& way) {
  std::vector<LinkName> links;
  for (const SocketAddress& hop : way.hops)
    if (hop.valid()) links.push_back(linkOf(hop));
  return links;
}

/// Links of which some flow takes the one or the other: sets of them, joined as flows are added.
class Alternatives {
 public:
  void add(const std::vector<FlowWay>& ways) {
    for (size_t hop = 0; hop < kMaxHops; ++hop) {
      const LinkName* first = nullptr;
      for (const FlowWay& way : ways) {
        if (hop >= way.hops.size() || !way.hops[hop].valid()) continue;
        const LinkName link = linkOf(way.hops[hop]);
        const auto at = parent_.try_emplace(link, link).first;
        if (first == nullptr)
          first = &at->first;
        else
          parent_[setOf(at->first)] = setOf(*first);
      }
    }
  }
  LinkName setOf(LinkName link) {
    while (parent_.at(link) != link) link = parent_[link] = parent_.at(parent_.at(link));
    return link;
  }
  /// What the link of each set that carries the least carries.
  std::map<LinkName, uint32_t> leastOf(const LinkLoads& loads) {
    std::map<LinkName, uint32_t> least;
    for (const auto& [link, parent] : parent_) {
      const auto load = loads.flows.find(link);
      const uint32_t carries = load != loads.flows.end() ? load->second : 0;
      const auto [at, isNew] = least.try_emplace(setOf(link), carries);
      if (!isNew) at->second = std::min(at->second, carries);
    }
    return least;
  }

 private:
  std::map<LinkName, LinkName> parent_;
};

}  // namespace

void FlowPlanner::hear(int origin, FlowMessage message, TimePoint now) {
  if (message.flow >= kMostNames) return;
  if (message.kind == FlowMessage::Kind::changed) {
    if (now - startedOver_ < kOneChange && startedOver_ != TimePoint{}) return;
    changed_ = true;
    due_ = now;
  } else if (message.kind == FlowMessage::Kind::ask && !message.ways.empty()) {
    if (due_ == TimePoint::max()) latest_ = now + kLongest;
    Flow& flow = flows_[{origin, message.flow}];
    const uint16_t port = flow.way != SIZE_MAX ? flow.ways[flow.way].port : 0;
    flow.ways = std::move(message.ways);
    const auto same = std::find_if(flow.ways.begin(), flow.ways.end(),
                                   [port](const FlowWay& way) { return way.port == port && port != 0; });
    flow.way = same != flow.ways.end() ? static_cast<size_t>(same - flow.ways.begin()) : SIZE_MAX;
    flow.asks = true;
    if (!changed_) due_ = std::min(now + kSettled, latest_);
  } else if (message.tellsPace()) {
    trials_.hear({origin, message.flow}, message, now);
  }
}

void FlowPlanner::progress(TimePoint now, const Tell& tell) {
  trials_.progress(
      now, [&](const Name& name) { tell(name.first, {.kind = FlowMessage::Kind::move, .flow = name.second}); });
  if (now < due_) return;
  due_ = TimePoint::max();
  if (!std::exchange(changed_, false)) return assign(tell);
  startedOver_ = now;
  flows_.clear();
  trials_.clear();
  tell(-1, {.kind = FlowMessage::Kind::again});
}

void FlowPlanner::assign(const Tell& tell) {
  std::vector<FlowChoice> choices;
  for (const auto& [name, flow] : flows_) {
    FlowChoice& choice = choices.emplace_back();
    choice.source = name.first;
    const bool stays = flow.way != SIZE_MAX && flows_.size() > kMostMoved;
    choice.now = stays ? 0 : flow.way;
    for (const FlowWay& way : flow.ways)
      if (!stays || &way == &flow.ways[flow.way]) choice.ways.push_back(linksOf(way));
  }
  const std::vector<size_t> chosen = assignFlows(choices);
  LinkLoads loads;
  Alternatives alternatives;
  for (size_t i = 0; i < choices.size(); ++i) loads.add(choices[i].ways[chosen[i]], choices[i].source);
  for (const auto& [name, flow] : flows_) alternatives.add(flow.ways);
  const std::map<LinkName, uint32_t> least = alternatives.leastOf(loads);
  size_t at = 0;
  for (auto& [name, flow] : flows_) {
    const FlowChoice& choice = choices[at];
    const size_t way = choice.ways.size() == flow.ways.size() ? chosen[at] : flow.way;
    const std::vector<LinkName>& links = choice.ways[chosen[at++]];
    const bool meets = std::any_of(links.begin(), links.end(), [&](LinkName link) {
      return loads.flows.at(link) >= least.at(alternatives.setOf(link)) + 2;
    });
    if (std::exchange(flow.asks, false) || way != flow.way)
      tell(name.first, {.kind = FlowMessage::Kind::answer, .flow = name.second, .port = flow.ways[way].port});
    flow.way = way;
    if (!meets || flow.more == kMostMore) continue;
    ++flow.more;
    tell(name.first, {.kind = FlowMessage::Kind::more, .flow = name.second});
  }
}

}  // namespace eccl::transport
