// Finds calls that wait for each other in a circle, since ranks have put calls into their streams in different
// orders: of several communicators mostly.
//
// A rank whose call has stalled tells the ranks that it waits for. Where one of them has made its part of the
// call, but in a stream behind another call, that call is in the way. It waits for ranks in its turn: these are
// sent a probe, which goes on from call to call in that manner. If it comes back to the call that it began with
// there is a circle, which nothing but an error ends. (Edge chasing: K. M. Chandy, J. Misra, L. M. Haas,
// "Distributed Deadlock Detection", 1983.)
//
// Nothing else is taken for a circle. That a call is behind another one does not change before that has ended,
// nor that it cannot end without a rank's part (Awaited::needed) before that rank has begun. At the end of the
// chain there is a call that has not begun, now. So the one before is in the way still, and so on to the
// beginning.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/execution/call.h"
#include "runtime/execution/stream.h"

namespace eccl::runtime {

/// Told by Circles, in the thread that called it, no lock held.
class CirclesHandler {
 public:
  virtual ~CirclesHandler() = default;
  /// `probe` is for onProbe() of that rank's Circles.
  virtual void sendProbe(int peer, std::string_view probe) = 0;
  /// The verdict.
  virtual void onCircle(const Status& why) = 0;
  /// The ranks without whose part a call cannot end that has stalled for long; none if it has not, or is over.
  virtual std::vector<int> neededBy(const Run& run) const = 0;
  virtual std::string describe(int rank) const = 0;
};

/// Owner: the communicator. Any thread, after begin(). A probe that makes no sense is ignored.
class Circles {
 public:
  /// All outlive this.
  Circles(CirclesHandler& handler, const Engine& engine, System& system)
      : handler_(handler), engine_(engine), system_(system) {}
  /// Once, when the rank is known. `name`: the communicator's, perhaps empty.
  void begin(uint64_t communicator, std::string name, int rank) {
    communicator_ = communicator;
    name_ = std::move(name);
    rank_ = rank;
  }

  /// This rank has made the call of that record, and another rank waits for that: `origin`, or kAnyRank if
  /// whoever is in the call does.
  static constexpr int kAnyRank = -1;
  void onAwaited(int origin, const CallRecord& record);
  /// What a peer's sendProbe() says.
  void onProbe(std::string_view bytes);
  /// `run`, a call of this rank's, is in the way of one that a probe has come to: the probe goes on.
  void pass(const Run& run, std::string_view bytes);

 private:
  /// The call that a probe began with, of one rank or any.
  struct Origin {
    uint64_t communicator = 0, scope = 0, sequence = 0;
    int64_t rank = kAnyRank;
    auto operator<=>(const Origin&) const = default;
  };
  /// `awaited`: the call that the last one waits for. `chain`: what was found so far, for people.
  struct Probe {
    Origin origin;
    CallRecord awaited;
    std::string chain;
  };
  static std::string write(const Probe& probe);
  static bool read(std::string_view bytes, Probe* probe);
  std::string textOf(const CallRecord& record) const;
  void follow(Probe probe);

  CirclesHandler& handler_;
  const Engine& engine_;
  System& system_;
  uint64_t communicator_ = 0;
  std::string name_;
  int rank_ = 0;
  std::mutex mutex_;
  /// When a probe last passed a call, given by scope and number: it does so now and then, and not for ever.
  std::map<std::tuple<Origin, uint64_t, uint64_t>, TimePoint> passed_;
};

}  // namespace eccl::runtime
