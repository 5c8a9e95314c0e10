// Further sockets for a connection that is ready, over the rails of its two ranks.
#pragma once

#include <memory>
#include <vector>

#include "transport/connect/link.h"
#include "transport/net/descriptors.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

/// Dials the pairs of rails one after the other, after the first, which the connection has. A socket goes out
/// through the interface that its pair names: as the kernel routes, if that is the one, else bound to it. A
/// rail that cannot be had is left out, with a warning that names both ends; the connection goes on without.
///
/// Owner: the OutgoingLink. Threads: the driver's. Failure: of a rail, as above; a connection that fails
/// meanwhile ends this.
class Widening final : public ReadyHandler {
 public:
  /// `hello` names the connection. Both outlive this.
  Widening(LinkContext& context, Connection& connection, const Hello& hello);
  ~Widening() override { stopDialing(); }
  /// Whether progress() has to be called, at once when something has happened, and at nextDeadline().
  bool pending() const;
  void progress();
  TimePoint nextDeadline() const;
  void closeAfterFork();

 private:
  /// How the current pair is tried.
  enum class Way : uint8_t { routed, bound, anyInterface };

  void onReady(uint32_t) override { progress(); }
  void dial();
  void stopDialing();
  void dialed(Result<Stream> socket);
  void next();
  const Endpoint& endpoint(int rank) const { return context_.options.endpoint(rank); }
  const Rail& mine() const;
  const Rail& theirs() const;

  LinkContext& context_;
  Connection& connection_;
  const Hello hello_;
  std::vector<RailPair> pairs_;
  size_t current_ = 1;
  Way way_ = Way::routed;
  std::string failure_;  // of the current pair: to be told at until_, unless the connection ends before
  TimePoint until_{};
  SetupTurn turn_;
  std::unique_ptr<Dialer> dialer_;
};

}  // namespace eccl::transport
