// One further socket for a connection that is ready.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "transport/connect/link.h"
#include "transport/net/descriptors.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

/// Calls the peer and gives the socket to the path, one after the other. Owner: who says which are wanted.
/// Threads: the driver's. Failure: the Status of each call.
class FurtherSocket final : public ReadyHandler {
 public:
  /// `hello` names the connection. Both outlive this. `onReady`: progress() has something to do.
  FurtherSocket(LinkContext& context, Connection& connection, const Hello& hello, std::function<void()> onReady)
      : context_(context), connection_(connection), hello_(hello), onReady_(std::move(onReady)) {}
  ~FurtherSocket() override { stop(); }
  /// Begins, when descriptors are to be had. Of `how` only what says by which way counts.
  void call(const SocketAddress& to, DialOptions how);
  bool calling() const { return wanted_ || dialer_ != nullptr; }
  /// How a call has ended, once; nothing: it goes on, or there is none.
  std::optional<Status> progress();
  /// Of the latest call that ended well.
  const SocketEnds& ends() const { return ends_; }
  TimePoint nextDeadline() const;
  void stop();
  void closeAfterFork();

 private:
  void onReady(uint32_t) override { onReady_(); }
  Status begin(TimePoint now);
  Status join(Stream socket);

  LinkContext& context_;
  Connection& connection_;
  const Hello hello_;
  const std::function<void()> onReady_;
  SocketAddress to_;
  DialOptions how_;
  SocketEnds ends_;
  bool wanted_ = false;  // a call is to begin at until_
  TimePoint until_{};
  SetupTurn turn_;
  std::unique_ptr<Dialer> dialer_;
};

}  // namespace eccl::transport
