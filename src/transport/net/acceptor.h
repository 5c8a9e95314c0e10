// The listener of one rank: takes connections from anywhere and hands on those that prove they belong.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "transport/net/endpoint.h"
#include "transport/net/half_open.h"
#include "transport/net/interfaces.h"
#include "transport/net/log_limiter.h"
#include "transport/net/poller.h"

namespace eccl::transport {

/// A connection whose dialer has proved the secret. The socket is non-blocking, close-on-exec, TCP_NODELAY, and
/// encrypted if it is TCP and the secret says so.
struct Incoming {
  Hello hello;
  Stream socket;
  bool viaUnix = false;
  int32_t pid = 0;   ///< SO_PEERCRED when viaUnix: from the kernel, in this process's pid namespace, 0 if not
                     ///< visible there
  std::string peer;  ///< "192.0.2.7:41234" or "unix pid 123", for messages
};

/// Listens on one TCP port per address family (wildcard address) and on an abstract AF_UNIX socket with a
/// random name.
///
/// Whoever fails the handshake, or is slow with it, is dropped with a rate-limited line in the log and never
/// disturbs the owner. Each listener has a fixed number of slots for unfinished handshakes; half_open.h says
/// who goes when they are too few. All listeners of a process together use at most an eighth of its
/// descriptors for them, but kMinHalfOpen each in any case.
///
/// Owner: the communicator (or the rendezvous root). Threads: endpoint() any; the rest one, the service
/// thread. Failure: open() says what could not be had; afterwards nothing fails, running out of descriptors
/// included (logged, tried again).
class Acceptor {
 public:
  struct Options {
    InterfaceOptions interfaces;  ///< which addresses endpoint() lists; listening is on all
    Duration handshakeLimit = std::chrono::seconds(5);  ///< for one handshake, from accept
    size_t maxHalfOpen = 128;                           ///< per listener
    uint16_t port = 0;                                  ///< 0: any free one
    bool unixListener = true;
    std::optional<Identity> identity;  ///< default: random
    /// Called from progress() for a caller with the secret who encrypts while this side does not, or the other
    /// way round: who it is, its address, and the end of a sentence about it. It is dropped.
    std::function<void(const Hello& hello, const std::string& peer, const std::string& why)> onDisagreement;
    System* system = &System::real();
  };
  /// Called from progress(). It must not destroy the Acceptor.
  using OnIncoming = std::function<void(Incoming)>;

  /// Opens the listeners; connections are accepted by progress(). Errors: invalidArgument if `options` select
  /// no interface, system if a listener cannot be had, or OpenSSL for a secret that encrypts. Logged.
  static Result<std::unique_ptr<Acceptor>> open(const Secret& secret, const Options& options,
                                                OnIncoming onIncoming);

  /// What to tell the other ranks. Constant.
  const Endpoint& endpoint() const { return endpoint_; }
  /// Readable when progress() has something to do.
  int fd() const { return poller_.fd(); }
  /// When progress() is to be called although fd() is silent; TimePoint::max() for never.
  TimePoint nextDeadline() const;
  void progress();
  /// As progress(), for an owner that is not ready yet: whoever proves the secret is kept until progress() is
  /// called.
  void attend();
  /// Handshakes under way, at all listeners.
  size_t halfOpen() const;

  /// In a forked child: closes every descriptor, touches nothing the parent shares. Only destruction may
  /// follow.
  void closeAfterFork();

 private:
  static constexpr size_t kMinHalfOpen = 8;
  struct Listener {
    Listener(Fd socket, bool isUnix, size_t most);
    Fd fd;
    const bool isUnix;
    HalfOpen callers;
    TimePoint pausedUntil = TimePoint::max();  // max: it is being watched
  };
  using Slot = HalfOpen::Slot;

  Acceptor(const Secret& secret, const Options& options, OnIncoming onIncoming);
  Status listen();
  Status addTcp(int family, uint16_t port);
  Status addUnix();
  void serve();
  void acceptFrom(Listener& listener);
  size_t room(const Listener& listener) const;
  bool makeRoom(Listener& listener);
  void fill(Listener& listener, Fd fd, const sockaddr_storage& from);
  void pause(Listener& listener, TimePoint until);
  void advance(Listener& listener, Slot& slot);
  void drop(Listener& listener, Slot& slot, const std::string& why);
  void evict(Listener& listener, Slot& slot);
  uint64_t tagOf(const Listener& listener, const Slot& slot) const;

  const Secret secret_;
  const Options options_;
  const OnIncoming onIncoming_;
  Endpoint endpoint_;
  Poller poller_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  bool ready_ = true;
  std::vector<Incoming> early_;  // came while attend() was called
  LogLimiter limiter_;
};

}  // namespace eccl::transport
