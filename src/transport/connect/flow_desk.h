// What one rank has to do with the placing of flows: its own ones, and rank 0 with everybody's.
#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "transport/connect/connector.h"
#include "transport/flows/flow_planner.h"

namespace eccl::transport {

/// Told by the FlowDesk what becomes of a connection's flows; in the driver's thread.
class FlowOwner {
 public:
  virtual ~FlowOwner() = default;
  /// The flow is to go from this port.
  virtual void onPlaced(size_t flow, uint16_t port) = 0;
  /// Its ways from more ports are to be found out.
  virtual void onMore(size_t flow) = 0;
  /// It is to try another port.
  virtual void onMove(size_t flow) = 0;
  /// All flows are to be placed anew.
  virtual void onAgain() = 0;
  /// Is its flows' pace what it was? Some times in a second, after wantLooks(). True: they send.
  virtual bool onLook() = 0;
};

/// Brings questions to rank 0 and answers to their flows. Owner: the Connector. Threads: the driver's. Failure:
/// none; a rank that is gone answers nothing, and flows stay where they are.
class FlowDesk {
 public:
  /// `options` outlive this.
  explicit FlowDesk(const ConnectorOptions& options);
  /// Whether the flows of one more connection can be placed: not without tellFlows, and not those of more
  /// connections than one rank has in any algorithm but a direct one.
  bool takes() const { return options_.tellFlows && owners_.size() < kMostPlaced; }
  /// `owner` hears of its flows until leave(). The name of the first of them; those of the others follow.
  uint64_t join(FlowOwner& owner, size_t flows);
  void leave(FlowOwner& owner);
  /// The right to probe, which few have at a time; true: to be given back.
  bool takeProbe() { return probing_ < kMostProbing && ++probing_ > 0; }
  void giveProbe() { --probing_; }
  /// Which of its ways is this flow to take?
  void ask(uint64_t name, std::vector<FlowWay> ways);
  /// From now on owners are asked to look.
  void wantLooks() { nextLook_ = std::min(nextLook_, options_.system->now()); }
  /// It is this fast. `kind`: pace, or what a trial has come to: moved or stayed.
  void tellPace(uint64_t name, const FlowPace& pace, FlowMessage::Kind kind);
  /// Whether a connection may find out now if ways are what they were. The others of this rank then wait a
  /// while: one is enough to see that a router is gone.
  bool mayTrace(TimePoint now);
  /// Ways are not what they were.
  void changed();
  /// What another rank says.
  void hear(int origin, std::string_view bytes);
  void progress();
  TimePoint nextDeadline() const {
    return planner_ ? std::min(planner_->nextDeadline(), nextLook_) : nextLook_;
  }

 private:
  static constexpr size_t kMostPlaced = 64;
  static constexpr int kMostProbing = 8;
  void tell(int target, const FlowMessage& message);
  void take(const FlowMessage& message);

  const ConnectorOptions& options_;
  std::optional<FlowPlanner> planner_;  // of rank 0
  struct Joined {
    FlowOwner* owner;
    size_t flows;
  };
  std::map<uint64_t, Joined> owners_;  // by the name of the first flow
  uint64_t names_ = 0;
  int probing_ = 0;
  TimePoint nextTrace_{}, nextLook_ = TimePoint::max();
};

}  // namespace eccl::transport
