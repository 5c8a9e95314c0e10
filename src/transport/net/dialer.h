// Reaching another rank's Acceptor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/net/endpoint.h"
#include "transport/net/handshake.h"
#include "transport/net/poller.h"
#include "transport/net/socket_ends.h"
#include "transport/net/wait.h"

namespace eccl::transport {

/// Which of an Endpoint's candidates to try.
enum class Via : uint8_t { tcp, unixThenTcp, unixOnly };

/// How an Endpoint is reached, and how long that may take.
struct DialOptions {
  std::string peer;  ///< whom this reaches, for messages: "rank 3 (node7 pid 123)"
  Via via = Via::tcp;
  Duration connectLimit = std::chrono::seconds(1);    ///< per candidate, until the kernel has connected
  Duration handshakeLimit = std::chrono::seconds(5);  ///< per candidate, from then on
  /// Start over, with doubled limits, until the deadline, when every candidate has failed: for a peer that may
  /// not be listening yet.
  bool retry = false;
  System* system = &System::real();
  /// TCP: the interface that is sent through, and its address; empty: as the kernel routes.
  std::string interface;
  SocketAddress from;
  /// TCP: whether a connected socket is the one that is wanted; not set: any. One that is not is closed before
  /// anything is said over it.
  std::function<bool(const SocketEnds& ends)> suits;
};

/// One attempt to reach one Endpoint: candidates in order, then the handshake and the Hello. Non-blocking. A
/// candidate whose listener has no room is tried again for a while before the next one is.
///
/// Owner and thread: whoever dials. It may be destroyed at any time. Failure: result() names the peer, every
/// candidate tried, and why each failed.
class Dialer {
 public:
  /// Nothing is sent before the first progress(). `deadline` bounds the whole attempt. Values are copied; the
  /// System outlives this.
  Dialer(const Endpoint& endpoint, const Secret& secret, const Hello& hello, const DialOptions& options,
         TimePoint deadline);

  /// Readable when progress() has something to do. Constant. -1: there is no descriptor for it, and
  /// progress() is true at once.
  int fd() const { return poller_.fd(); }
  /// When progress() is to be called although fd() is silent; TimePoint::max() when it is over.
  TimePoint nextDeadline() const;
  /// True once the attempt is over.
  bool progress();
  /// Once, after progress() returned true: the socket, like Incoming's, or the error. timeout: the deadline
  /// has passed. invalidUsage: one side encrypts and the other does not. remote: no candidate can be reached,
  /// and `retry` is off. internal: there is no candidate. system: no descriptors. Not logged.
  Result<Stream> result();
  /// In a forked child: closes the descriptors. Only destruction may follow.
  void closeAfterFork();

 private:
  enum class State : uint8_t { resting, connecting, shaking, over };
  struct Candidate {
    bool isUnix = false;
    SocketAddress address;
    std::string why;  // of the latest failure
    std::string text(const Endpoint& endpoint) const;
  };

  void start();
  void onConnected();
  void shake();
  void listenerBusy(const std::string& why);
  void hangUp(const std::string& why);
  void fail(const std::string& why);
  void finish(Status status);
  Duration stretched(Duration limit) const { return limit * (1 << std::min(round_, 3)); }

  const Endpoint endpoint_;
  const Secret secret_;
  const Hello hello_;
  const DialOptions options_;
  const TimePoint begun_, deadline_;
  std::vector<Candidate> candidates_;
  size_t current_ = 0;
  int round_ = 0;
  int attempts_ = 0;       // calls of the current candidate that were turned away
  TimePoint busySince_{};  // the first of them
  State state_ = State::resting;
  TimePoint until_{};  // of the current state
  Poller poller_;
  Stream socket_;  // while connecting, and when done
  Handshake handshake_;
  Status status_;
};

/// Whether a socket's two ends are one. A loopback socket may connect to itself when nobody listens on the
/// port sought and the kernel picks that port for it (TCP simultaneous open).
bool connectedToItself(const Fd& socket);

/// Dialer for a thread that may block, on the System of `wait`, whose deadline and abort flag end it. Waits
/// for its turn (SetupTurn) before it takes descriptors. Errors: the Dialer's; timeout if there was no turn;
/// internal when aborted. Not logged: the caller adds which rank it is, and logs.
Result<Stream> dial(const Endpoint& endpoint, const Secret& secret, const Hello& hello,
                    const DialOptions& options, const Wait& wait);

}  // namespace eccl::transport
