// Descriptors are few (a login shell has 1024). So parts of the library that need some only for a moment take
// turns.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/clock.h"
#include "base/status.h"

namespace eccl::transport {

/// How many of anything that takes a descriptor or two for a moment this process should have at a time: a
/// sixteenth of its limit, within 8 to `most`. Any thread.
size_t descriptorShare(size_t most = 256);

/// Whether `count` more can be had at this moment. It opens as many and closes them again. If they cannot be
/// had, and if that is allowed (expectDescriptors()), the limit is raised first. Other threads may make the
/// answer wrong in either direction. Any thread.
bool descriptorsLeft(size_t count);

/// Says whether the soft limit may be raised to the hard one (ECCL_RAISE_LIMITS), for the whole process; the
/// last call counts. Raises it if a communicator of `ranks` could need more than what is left. Each init
/// calls it. Any thread.
void expectDescriptors(int ranks, bool mayRaise);

/// Logs that `who` waits for descriptors, and why. A few such lines are written in ten seconds, the rest are
/// dropped. Any thread.
void sayThatDescriptorsAreShort(const char* who, const char* why = "this process has no descriptors left");

/// The right to set up one connection, of which a process gives descriptorShare() at a time. Ask take() now
/// and then until it is held; give() when the set-up is over. The turn ends with this object. One owner, one
/// thread; different turns in different threads.
class SetupTurn {
 public:
  /// Between two times that take() is asked.
  static constexpr Duration kRest = std::chrono::milliseconds(2);
  SetupTurn() = default;
  SetupTurn(const SetupTurn&) = delete;
  SetupTurn& operator=(const SetupTurn&) = delete;
  ~SetupTurn() { give(); }
  /// True: it is held, by this call or before. False: all are taken; their holders see somebodyWaits() until
  /// take() succeeds here or give() is called.
  bool take();
  /// Gives the turn back, or stops waiting for one. Does nothing if there is neither.
  void give();
  bool held() const { return held_; }
  /// Whether any turn of this process is waited for. A hint. Any thread.
  static bool somebodyWaits() { return waiting() > 0; }
  /// How many turns of this process are waited for. A hint. Any thread.
  static int waiting();

 private:
  bool held_ = false, waits_ = false;
};

}  // namespace eccl::transport
