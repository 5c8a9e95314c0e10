#include "transport/connect/flow_desk.h"

#include "base/log.h"

namespace eccl::transport {

FlowDesk::FlowDesk(const ConnectorOptions& options) : options_(options) {
  if (options.rank == 0) planner_.emplace();
}

void FlowDesk::leave(FlowOwner& owner) {
  owners_.erase(&owner);
  std::erase_if(asked_, [&](const auto& one) { return one.second.first == &owner; });
}

void FlowDesk::ask(FlowOwner& owner, size_t flow, std::vector<FlowWay> ways) {
  asked_[names_] = {&owner, flow};
  tell(0, {.kind = FlowMessage::Kind::ask, .flow = names_++, .ways = std::move(ways), .port = 0});
}

bool FlowDesk::mayTrace(TimePoint now) {
  constexpr Duration kBetween = std::chrono::milliseconds(200);
  if (now < nextTrace_) return false;
  nextTrace_ = now + kBetween;
  return true;
}

void FlowDesk::changed() {
  tell(0, {.kind = FlowMessage::Kind::changed, .flow = 0, .ways = {}, .port = 0});
}

void FlowDesk::hear(int origin, std::string_view bytes) {
  Result<FlowMessage> message = FlowMessage::decode(bytes);
  if (!message.ok()) {
    ECCL_WARN("%s: dropped %s from rank %d; is it another version of ECCL?",
              options_.describe(options_.rank).c_str(), message.status().message().c_str(), origin);
  } else if (planner_ &&
             (message->kind == FlowMessage::Kind::ask || message->kind == FlowMessage::Kind::changed)) {
    planner_->hear(origin, message.take(), options_.system->now());
  } else if (origin == 0) {
    take(*message);
  }
}

void FlowDesk::progress() {
  if (!planner_) return;
  planner_->progress(options_.system->now(),
                     [this](int target, const FlowMessage& message) { tell(target, message); });
}

void FlowDesk::tell(int target, const FlowMessage& message) {
  if (target != options_.rank && options_.tellFlows) options_.tellFlows(target, message.encode());
  if (target >= 0 && target != options_.rank) return;
  const bool asks = message.kind == FlowMessage::Kind::ask || message.kind == FlowMessage::Kind::changed;
  asks ? planner_->hear(options_.rank, message, options_.system->now()) : take(message);
}

void FlowDesk::take(const FlowMessage& message) {
  if (message.kind == FlowMessage::Kind::again) {
    asked_.clear();
    for (FlowOwner* const owner : owners_) owner->onAgain();
  } else if (const auto found = asked_.find(message.flow); found != asked_.end()) {
    const auto [owner, flow] = found->second;
    asked_.erase(found);
    owner->onPlaced(flow, message.port);
  }
}

}  // namespace eccl::transport
