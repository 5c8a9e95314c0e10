// Which flows are to try another way where nobody says by which way they go.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"
#include "transport/flows/flow_message.h"

namespace eccl::transport {

/// Switches choose a way by a hash of the source port. Where they do not tell which, one sees only that some
/// flows are slower than others while they send. So a slow one moves to another port, stays if it is faster
/// there, and goes back if not.
///
/// That goes by rounds: in each a sixteenth of the flows try ports, the slowest first, each up to six of them
/// one after the other. Then all rest, so that those that others came in the way of are seen as they are. A
/// flow that has found nothing rests longer and longer.
///
/// A flow is slow if it has less than three quarters of what the fastest quarter of the flows between such
/// rails have. One that has less than nine tenths and loses packets tries as well, as all may meet others.
///
/// Owner and thread: rank 0's driver. Failure: none; a flow that does not say how it fared has found nothing.
class FlowTrials {
 public:
  using Name = std::pair<int, uint64_t>;  // rank, and its name of the flow
  using Move = std::function<void(const Name& flow)>;
  /// A message that tells a pace.
  void hear(const Name& flow, const FlowMessage& message, TimePoint now);
  /// To be called at nextDeadline(). `move` is told which are to try another port.
  void progress(TimePoint now, const Move& move);
  TimePoint nextDeadline() const { return due_; }
  void clear() { *this = {}; }

 private:
  struct Flow {
    FlowPace pace;
    int left = 0;        // ports that it may still try in this round; 0: it takes no part
    bool asked = false;  // to try one
    int rests = 0;       // rounds in a row in which it has found nothing
    TimePoint since{};   // the latest of these rounds, or what it was asked
  };
  std::map<uint32_t, double> usualPaces() const;
  void begin(TimePoint now);
  void finish(Flow& flow, bool found, TimePoint now);
  std::map<Name, Flow> flows_;
  size_t trying_ = 0;  // flows in this round
  TimePoint nextRound_{}, due_ = TimePoint::max();
};

}  // namespace eccl::transport
