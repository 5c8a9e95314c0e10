// Moves a flow to another port to see whether it is faster there.
#pragma once

#include <string>
#include <vector>

#include "transport/connect/link.h"
#include "transport/connect/placed_flows.h"
#include "transport/flows/flow_gauge.h"

namespace eccl::transport {

/// For flows of which nobody says by which way they go: tells rank 0 how fast each is, and tries another port
/// when rank 0 says so (FlowTrials). A flow stays where it was if it is not clearly faster there.
///
/// Owner: FlowPlacing, which has nothing else move while a trial is under way. Threads: the driver's. Failure:
/// none; a flow that cannot move, or carries too little to tell, stays where it was.
class FlowTrial {
 public:
  /// All outlive this. `name`: of the first flow, at the desk.
  FlowTrial(LinkContext& context, PlacedFlows& flows, uint64_t name, std::string who);
  /// This flow is to be moved by trial.
  void add(size_t flow);
  bool has(size_t flow) const { return watched_[flow].unseen; }
  void clear();
  /// Some times in a second: how fast are these flows? True: something is sent.
  bool look();
  void begin(size_t flow);
  /// Tells rank 0 that the flow stays where it is.
  void refuse(size_t flow) { tell(flow, FlowMessage::Kind::stayed); }
  /// True: the trial is over. To be called at nextDeadline().
  bool progress();
  TimePoint nextDeadline() const { return flows_.moving() ? flows_.nextDeadline() : until_; }

 private:
  struct Watched {
    bool unseen = false;
    FlowGauge gauge;
    FlowPace pace, told;
  };
  void tell(size_t flow, FlowMessage::Kind kind);

  LinkContext& context_;
  PlacedFlows& flows_;
  const uint64_t name_;
  const std::string who_;
  std::vector<Watched> watched_;  // by flow
  size_t flow_ = 0;               // that tries
  TimePoint until_{}, limit_{}, idle_{};
};

}  // namespace eccl::transport
