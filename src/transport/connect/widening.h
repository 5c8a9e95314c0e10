// Further sockets for a connection that is ready, over the rails of its two ranks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "transport/connect/further_socket.h"

namespace eccl::transport {

/// Dials the pairs of rails one after the other, after the first, which the connection has. A socket goes out
/// through the interface that its pair names: as the kernel routes, if that is the one, else bound to it. A
/// rail that cannot be had is left out, with a warning that names both ends; the connection goes on without. So
/// is one that loses packets, for a while, and one that is lost, until it can be had again.
///
/// Owner: the OutgoingLink. Threads: the driver's. Failure: of a rail, as above; a connection that fails
/// meanwhile ends this.
class Widening {
 public:
  /// `hello` names the connection. Both outlive this.
  Widening(LinkContext& context, Connection& connection, const Hello& hello);
  /// Whether progress() has to be called, at once when something has happened, and at nextDeadline().
  bool pending() const;
  void progress();
  /// Three times a second.
  void look();
  /// The connection goes on without this socket.
  void lost(const SocketEnds& ends, const std::string& why);
  TimePoint nextDeadline() const;
  void closeAfterFork() { socket_.closeAfterFork(); }

 private:
  /// How the current pair is tried.
  enum class Way : uint8_t { routed, bound, anyInterface };

  void dial();
  void dialed(const Status& status);
  void next();
  const Endpoint& endpoint(int rank) const { return context_.options.endpoint(rank); }
  const Rail& mine() const;
  const Rail& theirs() const;
  void say(const LossySocket& socket);
  void tryLater(const RailPair& pair, Duration before);
  std::string railAt(int rank, const SocketAddress& address) const;
  bool again() const { return current_ >= atFirst_; }

  LinkContext& context_;
  Connection& connection_;
  /// A pair whose socket was lost.
  struct Lost {
    RailPair pair;
    TimePoint until{};  // when it is tried
    Duration rest{};    // before that
  };

  std::vector<RailPair> pairs_;  // that are dialed at first, then those that are tried again
  size_t current_ = 1;
  size_t atFirst_ = 0;
  std::vector<Lost> lost_;
  /// Since when a pair is back, and how long it was left alone before.
  struct Back {
    TimePoint since{};
    Duration rest{};
  };
  std::map<std::pair<int, int>, Back> back_;
  Duration rest_{};  // of the current pair, if it was lost
  Way way_ = Way::routed;
  std::string failure_;  // of the current pair: to be told at until_, unless the connection ends before
  TimePoint until_{};
  FurtherSocket socket_;
};

}  // namespace eccl::transport
