// How ranks that share nothing but a unique id find each other.
//
// Every rank tells the root where its own Acceptor is. When all have come, the root tells each where its
// parent in the control tree is, and ends. The root holds a short-lived socket for each of the first ranks,
// a sixteenth of its limit on descriptors. The others are noted, hang up and come again for the answer, so that
// a job of any size meets with few descriptors. What stays is the tree (control.h).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transport/bootstrap/frame.h"
#include "transport/bootstrap/unique_id.h"
#include "transport/net/acceptor.h"
#include "transport/net/wait.h"

namespace eccl::transport {

/// The root: made by ecclGetUniqueId, or by rank 0 for an id of the HOST:PORT form. Runs in a thread of its
/// own, which ends by itself when every rank has its answer, or some time after a failure (Options::linger).
///
/// A rank waits at the root for as long as it has said. When the first has waited its time, all that are
/// there get an error that names the missing ones, and so do those that come later. A rank whose connection
/// breaks before all are there is forgotten, so that it may be started again.
///
/// Owner: the caller of start(); destruction stops it. Threads: start, stop and destruction by the owner,
/// done() any. Failure: of start(), by its Status; of the meeting, to each rank that asks, and to the log.
class Rendezvous {
 public:
  struct Options {
    InterfaceOptions interfaces;
    Duration handshakeLimit = std::chrono::seconds(5);
    /// After a failure, how long the root stays to tell latecomers why.
    Duration linger = std::chrono::seconds(30);
    System* system = &System::real();
    size_t mostHeld = 0;  ///< ranks that wait for the answer on a socket; 0: descriptorShare(4096)
  };

  /// Listens, and starts the thread. Errors: Acceptor::open()'s; system for want of descriptors or threads.
  /// Logged.
  ///
  /// `id` from UniqueId::random(): listens on a free port and fills in id->addresses. `id` from
  /// uniqueIdFromSettings(): listens on id->addresses[0].port() and leaves the id as it is.
  static Result<std::unique_ptr<Rendezvous>> start(UniqueId* id, const Options& options);
  ~Rendezvous() { stop(); }

  /// Whether the thread has nothing left to do. Then destruction takes no time.
  bool done() const { return done_.load(std::memory_order_acquire); }
  /// Ends the thread and waits for it. Ranks that still wait see the connection close. Idempotent.
  void stop();
  /// In a forked child: closes the descriptors; the thread belongs to the parent. Only destruction may follow.
  void closeAfterFork();

 private:
  static constexpr Duration kDawdlerLimit = std::chrono::seconds(10);  // from authenticated to joined

  /// What a process says of itself.
  struct Claim {
    std::string peer;  // address, and host and pid once known
    int rank = 0, nranks = 0;
    Duration limit{};      // how long it is ready to wait
    TimePoint deadline{};  // until when
    Endpoint endpoint;
  };
  struct Joiner : Claim {
    FrameSocket socket;
    enum class State : uint8_t { connected, joined, answered, gone } state = State::connected;
  };
  using Joiners = std::map<int, Joiner>;  // by descriptor
  /// A rank that has joined, has hung up as told, and is expected back.
  struct Absent {
    Claim claim;
    TimePoint lostAt{};  // when it counts as gone
    std::string rival;   // who else has said to be this rank meanwhile
  };

  explicit Rendezvous(const Options& options) : options_(options) {}
  void run();
  void close();
  bool finished(TimePoint now) const;
  TimePoint nextDeadline() const;
  void onIncoming(Incoming incoming);
  void onDisagreement(const Hello& hello, const std::string& peer, const std::string& why);
  void service(Joiner& joiner);
  Result<bool> onFrame(Joiner& joiner, Frame&& frame);
  void join(Joiner& joiner);
  bool comesBack(Joiner& joiner);
  bool agrees(Joiner& joiner, const Claim& other);
  void sendAway(Joiner& joiner);
  void note(Joiner& joiner);
  void welcome(Joiner& joiner);
  bool stillThere(Joiner& joiner);
  bool allStillThere();
  void welcomeAll();
  void failAll(Code code, std::string why);
  void expire(TimePoint now);
  void answer(Joiner& joiner, FrameType type, std::string body);
  void finish(Joiner& joiner);
  void remove(Joiner& joiner);

  const Options options_;
  std::string where_;  // the root's addresses, for messages
  std::mutex mutex_;   // held by the thread except while it sleeps, so that a forked child can tell whether
                       // joiners_ is whole
  std::unique_ptr<Acceptor> acceptor_;
  Poller poller_;
  Fd stopEvent_;
  Thread thread_;
  std::atomic<bool> stop_{false}, done_{false};

  Joiners joiners_;
  std::map<int, Absent> absent_;        // by rank
  std::vector<std::string> endpoints_;  // by rank, once all have joined
  std::map<int, std::string> gone_;     // ranks that had joined and broke off: peer
  std::string failure_;                 // why there will be no communicator
  Code failureCode_ = Code::invalidUsage;
  std::set<int> answeredRanks_;
  int nranks_ = 0;  // the first joiner's claim
  bool welcomed_ = false;
  TimePoint lingerUntil_ = TimePoint::max();
};

/// What a rank says about itself.
struct JoinRequest {
  int rank = 0;
  int nranks = 1;
  Endpoint endpoint;  ///< its Acceptor's
};

/// The rank's side, blocking, in any thread: joins at `id`'s root and returns the parent's Endpoint in the
/// control tree, nothing for rank 0. The wait's deadline bounds both reaching the root (tried again while
/// nobody listens) and waiting for the other ranks; the root's own verdict at that moment may arrive up to 2 s
/// later. Errors: timeout (naming the root's addresses, or the missing ranks), invalidUsage (duplicate rank,
/// differing nranks), remote (the root went away), internal (aborted). Logged here.
Result<std::optional<Endpoint>> rendezvous(const UniqueId& id, const JoinRequest& request, const Wait& wait);

}  // namespace eccl::transport
