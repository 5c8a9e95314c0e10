#include "transport/connect/flow_desk.h"

#include "base/log.h"

namespace eccl::transport {

FlowDesk::FlowDesk(const ConnectorOptions& options) : options_(options) {
  if (options.rank == 0) planner_.emplace();
}

uint64_t FlowDesk::join(FlowOwner& owner, size_t flows) {
  owners_[names_] = {&owner, flows};
  return std::exchange(names_, names_ + flows);
}

void FlowDesk::leave(FlowOwner& owner) {
  std::erase_if(owners_, [&](const auto& one) { return one.second.owner == &owner; });
}

void FlowDesk::ask(uint64_t name, std::vector<FlowWay> ways) {
  tell(0, {.kind = FlowMessage::Kind::ask, .flow = name, .ways = std::move(ways)});
}

void FlowDesk::tellPace(uint64_t name, const FlowPace& pace, FlowMessage::Kind kind) {
  tell(0, {.kind = kind, .flow = name, .pace = pace});
}

bool FlowDesk::mayTrace(TimePoint now) {
  constexpr Duration kBetween = std::chrono::milliseconds(200);
  if (now < nextTrace_) return false;
  nextTrace_ = now + kBetween;
  return true;
}

void FlowDesk::changed() {
  tell(0, {.kind = FlowMessage::Kind::changed});
}

void FlowDesk::hear(int origin, std::string_view bytes) {
  Result<FlowMessage> message = FlowMessage::decode(bytes);
  if (!message.ok()) {
    ECCL_WARN("%s: dropped %s from rank %d; is it another version of ECCL?",
              options_.describe(options_.rank).c_str(), message.status().message().c_str(), origin);
  } else if (planner_ && message->toRankZero()) {
    planner_->hear(origin, message.take(), options_.system->now());
  } else if (origin == 0) {
    take(*message);
  }
}

void FlowDesk::progress() {
  if (!planner_ && nextLook_ == TimePoint::max()) return;
  const TimePoint now = options_.system->now();
  if (planner_)
    planner_->progress(now, [this](int target, const FlowMessage& message) { tell(target, message); });
  if (now < nextLook_) return;
  constexpr Duration kBetween = std::chrono::milliseconds(30), kBetweenIdle = std::chrono::milliseconds(300);
  bool active = false;
  for (const auto& [first, joined] : owners_) active |= joined.owner->onLook();
  nextLook_ = now + (active ? kBetween : kBetweenIdle);
}

void FlowDesk::tell(int target, const FlowMessage& message) {
  if (target != options_.rank && options_.tellFlows) options_.tellFlows(target, message.encode());
  if (target >= 0 && target != options_.rank) return;
  message.toRankZero() ? planner_->hear(options_.rank, message, options_.system->now()) : take(message);
}

void FlowDesk::take(const FlowMessage& message) {
  if (message.kind == FlowMessage::Kind::again) {
    for (const auto& [first, joined] : owners_) joined.owner->onAgain();
    return;
  }
  auto found = owners_.upper_bound(message.flow);
  if (found == owners_.begin()) return;
  --found;
  FlowOwner* const owner = found->second.owner;
  const uint64_t flow = message.flow - found->first;
  if (flow >= found->second.flows) return;  // of one that has left
  switch (message.kind) {
    case FlowMessage::Kind::answer:
      return owner->onPlaced(flow, message.port);
    case FlowMessage::Kind::more:
      return owner->onMore(flow);
    case FlowMessage::Kind::move:
      return owner->onMove(flow);
    default:
      return;
  }
}

}  // namespace eccl::transport
