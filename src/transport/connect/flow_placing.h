// Has the sockets of one connection go where rank 0 wants them on a fabric with several paths.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/connect/flow_desk.h"
#include "transport/connect/further_socket.h"
#include "transport/flows/flow_probe.h"

namespace eccl::transport {

/// For each pair of rails: finds out by which routers flows from some source ports go (FlowProbe), asks rank 0
/// which of them to take, and opens a further socket from that port. Long messages then go over these sockets
/// alone. A pair for which nothing can be found out keeps the socket it has.
///
/// When packets are lost, the ports that were not taken are traced again. If they have other ways than before,
/// the network has, and rank 0 has all ranks begin anew.
///
/// Owner: the OutgoingLink. Threads: the driver's. Failure: none; flows stay as they are, and the log says why.
class FlowPlacing final : public FlowOwner, public ReadyHandler {
 public:
  /// `hello` names the connection. `wake`: it is pending() from now on.
  FlowPlacing(LinkContext& context, Connection& connection, const Hello& hello, std::function<void()> wake);
  ~FlowPlacing() override;
  /// Begins, unless it has: once the connection has all sockets that it is to have otherwise.
  void startOnce() {
    if (state_ == State::fresh) start();
  }
  /// Whether progress() has to be called, at once when something has happened, and at nextDeadline().
  bool pending() const;
  void progress();
  TimePoint nextDeadline() const;
  /// Some times in a second.
  void look();
  void closeAfterFork();

 private:
  enum class State : uint8_t { fresh, resting, probing, asking, joining, placed, tracing };
  /// A socket of its own, between two rails.
  struct Flow {
    Rail mine, theirs;
    std::vector<FlowWay> ways;
    uint16_t port = 0;  // 0: stays where it is
    bool probedTwice = false;
  };
  static bool isPlaced(const Flow& flow) { return flow.port != 0; }

  void onReady(uint32_t) override { progress(); }
  void onPlaced(size_t flow, uint16_t port) override;
  void onAgain() override;
  void start();
  void probe(std::vector<uint16_t> ports);
  void stopProbing();
  void probed();
  void ask();
  void joinNext();
  void joined(const Status& status);
  void useThem();
  void traced();
  uint64_t losses() const;
  std::string text() const;

  LinkContext& context_;
  Connection& connection_;
  const std::function<void()> wake_;
  State state_ = State::fresh;
  std::vector<Flow> flows_;
  size_t current_ = 0;  // probing, tracing: of flows_; joining too
  size_t unanswered_ = 0;
  bool again_ = false;  // to begin anew when it is placed
  TimePoint until_{};   // when a probe may be begun
  std::unique_ptr<FlowProbe> probe_;
  FurtherSocket socket_;
  uint64_t losses_ = 0;  // packets, as of the latest look
  TimePoint nextTrace_{};
  Duration traceRest_{};
};

}  // namespace eccl::transport
