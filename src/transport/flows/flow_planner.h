// Rank 0's part in placing flows: it knows all flows of the communicator.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "transport/flows/flow_assignment.h"
#include "transport/flows/flow_message.h"

namespace eccl::transport {

/// Collects what ranks ask, and answers when for a moment nobody has asked more: the more flows are known, the
/// better they are spread. Flows that were answered keep their ways until start over.
///
/// Owner and thread: rank 0's driver. Failure: none.
class FlowPlanner {
 public:
  /// To rank `target`, this one included; to all ranks if it is negative.
  using Tell = std::function<void(int target, const FlowMessage& message)>;

  /// An `ask` or a `changed` of rank `origin`. Others are dropped.
  void hear(int origin, FlowMessage message, TimePoint now);
  /// To be called at nextDeadline().
  void progress(TimePoint now, const Tell& tell);
  TimePoint nextDeadline() const { return due_; }

 private:
  using Name = std::pair<int, uint64_t>;  // rank, and its name of the flow
  std::map<Name, std::vector<FlowWay>> asked_;
  std::map<Name, std::vector<LinkName>> placed_;
  TimePoint due_ = TimePoint::max(), latest_{};
  TimePoint startedOver_{};
  bool changed_ = false;
};

}  // namespace eccl::transport
