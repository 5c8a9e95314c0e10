// Rank 0's part in placing flows: it knows all flows of the communicator.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "transport/flows/flow_assignment.h"
#include "transport/flows/flow_message.h"
#include "transport/flows/flow_trials.h"

namespace eccl::transport {

/// Collects what ranks ask, and answers when for a moment nobody has asked more: the more flows are known, the
/// better they are spread. Flows that have a way change it where one that comes later needs that. Where a flow
/// meets others, and links beside theirs carry less that it has found no way to, it is to look for more ways.
/// Flows whose ways nobody tells are moved by trial (FlowTrials).
///
/// Owner and thread: rank 0's driver. Failure: none.
class FlowPlanner {
 public:
  /// To rank `target`, this one included; to all ranks if it is negative.
  using Tell = std::function<void(int target, const FlowMessage& message)>;

  /// What rank `origin` tells rank 0. Other messages are dropped.
  void hear(int origin, FlowMessage message, TimePoint now);
  /// To be called at nextDeadline().
  void progress(TimePoint now, const Tell& tell);
  TimePoint nextDeadline() const { return std::min(due_, trials_.nextDeadline()); }

 private:
  using Name = FlowTrials::Name;
  struct Flow {
    std::vector<FlowWay> ways;
    size_t way = SIZE_MAX;  // that it has; SIZE_MAX: none yet
    bool asks = false;
    int more = 0;  // so often it was to look for more
  };
  void assign(const Tell& tell);
  std::map<Name, Flow> flows_;
  FlowTrials trials_;
  TimePoint due_ = TimePoint::max(), latest_{};
  TimePoint startedOver_{};
  bool changed_ = false;
};

}  // namespace eccl::transport
