#include "transport/flows/flow_planner.h"

#include <algorithm>
#include <string_view>

namespace eccl::transport {
namespace {

/// Ranks find out their ways at about the same time. One that is late finds the others' flows placed.
constexpr Duration kQuiet = std::chrono::milliseconds(30), kLongest = std::chrono::milliseconds(200);
/// Those who see a change see it within this time: it is one.
constexpr Duration kOneChange = std::chrono::milliseconds(700);

/// A link is named by the router that it leads to, as that router calls itself there.
std::vector<LinkName> linksOf(const FlowWay& way) {
  std::vector<LinkName> links;
  for (const SocketAddress& hop : way.hops)
    if (hop.valid()) links.push_back(std::hash<std::string>()(hop.hostText()));
  return links;
}

}  // namespace

void FlowPlanner::hear(int origin, FlowMessage message, TimePoint now) {
  if (message.kind == FlowMessage::Kind::changed) {
    if (now - startedOver_ < kOneChange && startedOver_ != TimePoint{}) return;
    changed_ = true;
    due_ = now;
  } else if (message.kind == FlowMessage::Kind::ask && !message.ways.empty()) {
    if (asked_.empty()) latest_ = now + kLongest;
    placed_.erase({origin, message.flow});
    asked_[{origin, message.flow}] = std::move(message.ways);
    if (!changed_) due_ = std::min(now + kQuiet, latest_);
  }
}

void FlowPlanner::progress(TimePoint now, const Tell& tell) {
  if (now < due_) return;
  due_ = TimePoint::max();
  if (std::exchange(changed_, false)) {
    startedOver_ = now;
    asked_.clear();
    placed_.clear();
    return tell(-1, {.kind = FlowMessage::Kind::again});
  }
  LinkLoads loads;
  for (const auto& [name, links] : placed_) loads.add(links, name.first);
  std::vector<FlowChoice> choices;
  for (const auto& [name, ways] : asked_) {
    FlowChoice& choice = choices.emplace_back();
    choice.source = name.first;
    for (const FlowWay& way : ways) choice.ways.push_back(linksOf(way));
  }
  const std::vector<size_t> chosen = assignFlows(choices, &loads);
  std::map<Name, std::vector<FlowWay>> asked;
  asked.swap(asked_);
  size_t at = 0;
  for (const auto& [name, ways] : asked) {
    const size_t way = chosen[at];
    placed_[name] = choices[at++].ways[way];
    tell(name.first,
         {.kind = FlowMessage::Kind::answer, .flow = name.second, .ways = {}, .port = ways[way].port});
  }
}

}  // namespace eccl::transport
