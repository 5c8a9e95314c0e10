// The control tree: the few sockets over which the ranks of a communicator tell each other everything that is
// not data.
//
//   flood()       over every edge once, away from its origin
//   send()        from hop to hop
//   allGather()   parts one by one up to rank 0, the result down to all
//   departed      what is known of a rank that is gone, over every edge once
//   heartbeat     between neighbours, where nothing else is sent
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/condition.h"
#include "transport/bootstrap/frame.h"
#include "transport/bootstrap/gather.h"
#include "transport/bootstrap/ranks.h"
#include "transport/net/acceptor.h"
#include "transport/net/wait.h"

namespace eccl::transport {

/// Told by Control::progress(), in the service thread, without a lock held. May call flood() and send(); must
/// not call what blocks.
class ControlHandler {
 public:
  virtual ~ControlHandler() = default;
  /// A flood() or send() of rank `origin`. `payload` is valid during the call.
  virtual void onMessage(int origin, uint16_t kind, std::string_view payload) = 0;
  /// Rank `rank` died, hangs, or cannot be reached; once per rank. The tree may be cut from now on: the
  /// neighbours of `rank` tell everybody on their side, and the sides do not hear of each other again.
  virtual void onLost(int rank, const std::string& reason) = 0;
  /// Rank `rank` has ended its membership in order (disconnect()): it takes part in nothing any more. Once per
  /// rank, and never after onLost() of it.
  virtual void onLeft(int rank) { (void)rank; }
};

/// One rank's node in the tree (ranks.h has its shape). Messages arrive once and, between two ranks, in
/// order.
///
/// Owner: the communicator.
///
/// Threads: fd(), nextDeadline(), progress() and closeAfterFork() belong to the service thread, which must be
/// running progress() from before connect() until after disconnect(). connect() and disconnect() block, and
/// belong to one thread that is not the service thread. allGather() blocks, and may be called by any other
/// thread. flood(), send(), adopt(), reserveGather(), giveBackGather() and cancelGathers() may be called by any
/// thread and do not wait.
///
/// Failure: of a neighbour, by onLost(); of a call, by its Status. A communicator that has lost a rank stays
/// as it is until destroyed. Destruction without disconnect() looks like death to the neighbours.
class Control {
 public:
  struct Options {
    /// A sign of life goes to each neighbour this often, from the service thread.
    Duration heartbeat = std::chrono::milliseconds(250);
    /// A neighbour that is silent for this long is lost if its kernel does not acknowledge either (dead host,
    /// cut cable). The kernel of a process that is stopped in a debugger does; a warning then names the
    /// process.
    Duration hostLimit = std::chrono::seconds(5);
    /// A neighbour whose service thread is silent for this long is lost in any case. Longer than hostLimit,
    /// because a stopped or starved process may come back.
    Duration silenceLimit = std::chrono::seconds(60);
    System* system = &System::real();  ///< blocking calls sleep by that of their Wait
  };
  /// One rank's share of an allGather.
  static constexpr size_t kMaxPart = 1u << 20;

  /// `handler` outlives this. Needs no connection yet: children may arrive (adopt()) before connect().
  Control(uint64_t communicator, const Secret& secret, int rank, int nranks, const Options& options,
          ControlHandler* handler);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  /// Once, before the rest. Error (system): no descriptors; logged.
  Status open();

  /// Takes a connection of Purpose::control from this rank's Acceptor. One that is not a child's is closed
  /// and logged.
  void adopt(Incoming incoming);
  /// Connects to the parent (`nothing` for rank 0) and waits for the children. Errors name the ranks that are
  /// missing, and so do the messages that go to the rest of the tree: timeout, remote if a rank is lost,
  /// internal when aborted. Logged.
  Status connect(const std::optional<Endpoint>& parent, const Wait& wait);

  /// Sends to every other rank. `kind` is the caller's own numbering. Returns when it is queued; after
  /// disconnect() it is dropped. Error (internal): the payload exceeds Frame::kMaxBody.
  Status flood(uint16_t kind, std::string_view payload);
  /// Sends to rank `target`; returns when it is queued. Lost silently when the way is cut, which onLost() or
  /// onLeft() tells. Error (internal): the payload exceeds Frame::kMaxBody, or there is no such other rank.
  Status send(int target, uint16_t kind, std::string_view payload);
  /// Takes the next allGather's number. Any thread; the order of the calls is the same on all ranks. Each
  /// number is used by one allGather(): the other ranks wait for this one's part.
  uint64_t reserveGather();
  /// Gives back the number that was taken last, for which there is no allGather(). Any thread. An older one
  /// stays taken.
  void giveBackGather(uint64_t number);
  /// Everybody's `mine`, by rank; once for each number. Several may be under way. Every rank makes as many,
  /// in the same order of numbers.
  ///
  /// The wait of the least patient rank counts for all: rank 0 then tells everyone whose part is missing,
  /// which may take a second longer than the deadline. Errors: timeout with the missing ranks; remote when a
  /// rank is lost, or has left; internal when aborted; invalidUsage after disconnect(); invalidArgument when a
  /// part is longer than kMaxPart, or all parts together longer than Frame::kMaxBody; and what
  /// cancelGathers() says. Not logged.
  Result<Parts> allGather(uint64_t number, std::string_view mine, const Wait& wait);
  /// The same with the next number; a part that is too long takes none.
  Result<Parts> allGather(std::string_view mine, const Wait& wait);
  /// Ends the allGathers of this rank with `why`, those under way and all to come. The first reason stays.
  /// Any thread.
  void cancelGathers(const Status& why);

  /// Orderly end: sends what is queued, tells the neighbours, and waits for them to close, at most until the
  /// deadline (a second is plenty). Nothing is reported any more, nothing can be sent. Again: waits only.
  void disconnect(const Wait& wait);

  int fd() const { return poller_.fd(); }
  /// When progress() is to be called although fd() is silent.
  TimePoint nextDeadline() const;
  /// Goes on with everything, without waiting, and calls the handler.
  void progress();

  /// In a forked child: closes the descriptors without touching what the parent shares. Only destruction may
  /// follow.
  void closeAfterFork();

 private:
  struct Neighbour {
    enum class State : uint8_t { absent, open, draining, closed } state = State::absent;
    int rank = -1;
    std::string who;  // "rank 3 (node7 pid 123)"
    FrameSocket socket;
    TimePoint heard{}, sent{};
    bool warned = false;  // of its silence
    bool watchesOutput = false;
    std::vector<std::shared_ptr<const std::string>> early;  // for one that has not connected yet
  };
  struct Command {  // from any thread to the service thread
    enum class What : uint8_t { transmit, adopt, report, leave } what = What::transmit;
    Frame frame;    // transmit; report: what to say of the rank header.target
    Stream socket;  // adopt
    int rank = -1;
    std::string who;
  };
  using Encoded = std::shared_ptr<const std::string>;

  void post(Command command);
  void execute(Command command);
  void attach(Command command);
  Neighbour* neighbour(int rank);
  void readFrom(Neighbour& from);
  Result<bool> onFrame(Neighbour& from, Frame&& frame);
  void transmit(Frame&& frame);
  void spread(const Frame& frame, int exceptRank);
  void write(Neighbour& to, Encoded bytes);
  void flush(Neighbour& to);
  void close(Neighbour& n);
  void lose(Neighbour& n, const std::string& reason);
  void depart(const Frame& frame, int fromRank);
  void conclude(const std::vector<Frame>& outcomes);
  void settle(const Frame& outcome);
  void beat(TimePoint now);
  void leave();
  Status awaitNeighbours(const Wait& wait);
  Status checkPart(std::string_view mine) const;
  void breakGathers(const Status& why);
  void reportMissing(int rank, const std::string& why);
  Status submit(FrameType type, int target, uint16_t kind, std::string_view payload);

  const uint64_t communicator_;
  const Secret secret_;
  const int rank_, nranks_;
  const Options options_;
  ControlHandler* const handler_;
  Poller poller_;
  Fd wake_;

  // The service thread's. Fixed places: closeAfterFork() may find progress() halfway. [0] is the parent.
  std::array<Neighbour, kTreeFanout + 1> neighbours_;
  std::vector<uint8_t> departed_;
  GatherRoot gathers_;  // used by rank 0
  TimePoint lastProgress_{};
  bool leaving_ = false;

  // Shared with callers.
  mutable std::mutex mutex_;
  Condition changed_;
  std::vector<Command> commands_;
  std::map<uint64_t, std::optional<Result<Parts>>> outcomes_;  // of allGathers that are waited for
  uint64_t gathersBegun_ = 0;
  std::vector<int> connected_;  // neighbours that are or were there
  Status broken_;               // why nothing can be gathered any more
  bool over_ = false;           // disconnect has begun
  bool drained_ = false;        // disconnect is complete
};

}  // namespace eccl::transport
