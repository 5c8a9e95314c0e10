// Has the flows of one connection go where rank 0 wants them on a fabric with several paths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/connect/flow_trial.h"
#include "transport/connect/link.h"
#include "transport/connect/placed_flows.h"
#include "transport/flows/flow_probe.h"

namespace eccl::transport {

/// For each flow (PlacedFlows): finds out by which routers it would go from some source ports (FlowProbe), asks
/// rank 0 which of them to take, and moves it to that port. When packets are lost, and now and then while
/// something is sent, the ports that were not taken are traced again. If they have other ways than before, the
/// network has, and rank 0 has all ranks begin anew.
///
/// Where there are routers that say nothing, flows of which the kernel knows how fast they are are moved by
/// trial (FlowTrial). A flow of which neither can be had stays where it is.
///
/// Owner: the OutgoingLink. Threads: the driver's. Failure: none; flows stay as they are, and the log says why.
class FlowPlacing final : public FlowOwner, public ReadyHandler {
 public:
  /// Of the connection's path, which is there. `hello` names the connection. `wake`: it is pending() from now
  /// on.
  FlowPlacing(LinkContext& context, Connection& connection, const Hello& hello, std::function<void()> wake);
  ~FlowPlacing() override;
  /// Begins, unless it has: once the connection has all sockets that it is to have otherwise.
  void startOnce();
  /// Whether progress() has to be called, at once when something has happened, and at nextDeadline().
  bool pending() const;
  void progress();
  TimePoint nextDeadline() const;
  /// Three times a second.
  void look();
  void closeAfterFork();

 private:
  /// resting: nothing is under way; others may have to say something.
  enum class State : uint8_t { fresh, resting, probing, joining, tracing, trying };
  struct Flow {
    std::vector<FlowWay> ways;
    int probes = 0;        // of its ports
    bool toProbe = true;   // (again)
    uint16_t wanted = 0;   // the port that rank 0 has chosen; 0: none
    bool several = false;  // ways, now or before
  };
  bool placed(size_t flow) const { return flows_[flow].wanted != 0; }

  void onReady(uint32_t) override { progress(); }
  void onPlaced(size_t flow, uint16_t port) override;
  void onMore(size_t flow) override;
  void onMove(size_t flow) override;
  bool onLook() override;
  void onAgain() override;
  void next();
  void begin(State state, size_t flow);
  void probe();
  void stopProbing();
  void probed();
  void joined(const Status& status);
  void traced();
  std::string text() const;

  LinkContext& context_;
  Connection& connection_;
  const std::function<void()> wake_;
  const std::unique_ptr<PlacedFlows> movable_;
  State state_ = State::fresh;
  std::vector<Flow> flows_;
  const uint64_t name_;  // of the first
  FlowTrial trial_;
  size_t current_ = 0;  // what is under way, of flows_
  bool again_ = false;  // to begin anew
  TimePoint until_{};   // when a probe may be begun
  std::unique_ptr<FlowProbe> probe_;
  SocketReport carried_;  // by all, as of the latest look
  TimePoint nextTrace_{};
  Duration traceRest_;
};

}  // namespace eccl::transport
