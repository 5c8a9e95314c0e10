// Descriptors are few (a login shell has 1024): what of the library uses some for a moment waits for its turn.
#pragma once

#include <cstddef>

#include "base/status.h"

namespace eccl::transport {

/// How many of anything that takes a descriptor or two for a moment this process should have at a time: a
/// sixteenth of its limit, within 8 to 256. Any thread.
size_t descriptorShare();

/// Whether `count` more can be had at this moment. If not, and if that is allowed, the limit is raised first.
/// What another thread does may make the answer wrong in either direction. Any thread.
bool descriptorsLeft(size_t count);

/// Says whether the soft limit may be raised to the hard one (ECCL_RAISE_LIMITS), and does so if a communicator
/// of `ranks` could need more than what is left. For each init. Any thread.
void expectDescriptors(int ranks, bool mayRaise);

/// Logs, at most once in ten seconds, that somebody waits for descriptors.
void sayThatDescriptorsAreShort(const char* who);

/// The right to set up one connection, of which a process gives descriptorShare() at a time. One owner, one
/// thread; different turns in different threads.
class SetupTurn {
 public:
  SetupTurn() = default;
  SetupTurn(const SetupTurn&) = delete;
  SetupTurn& operator=(const SetupTurn&) = delete;
  ~SetupTurn() { give(); }
  /// True: it is held. False: all are taken, and their holders see somebodyWaits() until this is asked for
  /// again and given, or given up.
  bool take();
  void give();
  bool held() const { return held_; }
  static bool somebodyWaits();

 private:
  bool held_ = false, waits_ = false;
};

}  // namespace eccl::transport
