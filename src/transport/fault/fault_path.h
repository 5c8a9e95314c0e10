// A path for tests that delays, blocks or cuts another one, as a FaultPlan says.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "base/system.h"
#include "transport/core/connection.h"
#include "transport/core/ring_memory.h"
#include "transport/fault/fault_plan.h"

namespace eccl::transport {

/// Sits at the sending end: the lane fills a ring of its own, and messages are moved from there into the real
/// one when the plan says so; credits come back the same way. References are passed on as they are. It works
/// whenever it is called, and Connector::progress() calls it when something falls due.
///
/// Owner: the Connection. Threads: the driver's. Failure: a cut destroys the real path without farewell and
/// tells `onCut`.
class FaultPath final : public Path {
 public:
  /// `outer` is the lane's end, attached to `memory`.
  FaultPath(const FaultPlan& plan, System& system, RingMemory memory, SendEnd& outer,
            std::function<void(const Breakage&)> onCut);
  /// The end that the real path serves. To be attached to its ring before wrap().
  SendEnd& inner() { return inner_; }
  /// Takes the real path, which serves inner(). Once, before the first kick().
  void wrap(std::unique_ptr<Path> path);
  /// When kick() has something to do; TimePoint::max() if that depends on others.
  TimePoint nextDue() const;

  const char* name() const override { return path_ != nullptr ? path_->name() : "cut"; }
  void kick() override;
  // Its messages have the same numbers.
  bool grants() const override { return path_ != nullptr && path_->grants(); }
  bool awaitsGrant(uint64_t message) const override { return path_ != nullptr && path_->awaitsGrant(message); }
  bool polls() const override { return path_ != nullptr && path_->polls(); }
  void poll() override;
  void flush() override;
  void askForReleases() override;
  void limitAhead(uint32_t messages) override;
  Status addSocket(Stream socket) override;
  void weighSockets(const std::function<uint32_t(const SocketEnds&)>& megabits) override;
  void preferSockets(const std::function<bool(const SocketEnds&)>& takesLongOnes) override;
  void closeSpareSockets() override;
  std::vector<LossySocket> leaveOutLossy(TimePoint now) override {
    return path_ != nullptr ? path_->leaveOutLossy(now) : std::vector<LossySocket>();
  }
  std::string checkSockets(const std::function<std::string(const SocketAddress& mine)>& downAt) override;
  std::vector<SocketReport> sockets() const override {
    return path_ != nullptr ? path_->sockets() : std::vector<SocketReport>();
  }
  std::vector<DeviceFlow> deviceFlows() const override {
    return path_ != nullptr ? path_->deviceFlows() : std::vector<DeviceFlow>();
  }
  Status moveDeviceFlow(size_t flow, uint16_t port) override;
  LinkReport link() const override { return path_ != nullptr ? path_->link() : LinkReport(); }
  void beforeSleep() override;
  void afterSleep() override;
  bool drained() const override { return outer_.control->released == outer_.next; }
  void endReceiving() override {}  // it sits at sending ends
  void poison() override;
  void closeAfterFork() override;

 private:
  /// Times at which messages, or credits, may pass.
  struct Way {
    uint64_t seen = 0;  // so many have been given a time
    std::deque<TimePoint> due;
    TimePoint last{};  // the latest time given: no overtaking
  };
  void admit(Way& way, uint64_t upTo, bool mayStall);
  void moveMessages(TimePoint now);
  void moveCredits(TimePoint now);
  Duration randomDelay();

  const FaultPlan plan_;
  System& system_;
  const RingMemory memory_;
  SendEnd& outer_;
  SendEnd inner_;
  std::unique_ptr<Path> path_;
  const std::function<void(const Breakage&)> onCut_;
  uint64_t first_, random_;
  Way messages_, credits_;
};

}  // namespace eccl::transport
