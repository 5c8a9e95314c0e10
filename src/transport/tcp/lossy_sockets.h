// Which of a connection's sockets lose packets and hold the others up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace eccl::transport {

/// Judges sockets that carry the parts of the same messages, by what the kernel has counted. One is left out
/// where it loses packets again and again, one of the others loses far fewer, and they would have carried
/// everything in a quarter of the time for which it was busy: a message is complete when its last part is. So
/// rails that lose packets because they are full stay: they all do, and carry their share.
///
/// One that is left out is taken again after a while, which doubles each time that it proves no better.
///
/// Owner: the sending path. Threads: the driver's.
class LossySockets {
 public:
  /// Of one socket, since it was made.
  struct Counts {
    uint64_t bytes = 0;             ///< acknowledged
    uint64_t rate = 0;              ///< bytes per second, as packets arrive where there are any
    uint64_t busyMicroseconds = 0;  ///< in which something waited to be sent or acknowledged
    uint64_t packets = 0;           ///< sent, those that were sent again included
    uint64_t lost = 0;              ///< of these: sent again, and not in vain
  };
  /// A socket that is left out from now on.
  struct Verdict {
    size_t socket = 0;
    uint64_t packets = 0, lost = 0;
    Duration during{};   ///< in this time
    Duration rest{};     ///< it is left out for so long
    bool again = false;  ///< as before, in the minute that it was used since
  };

  /// To be called some times in a second. `counts` by the sockets' numbers; nothing: it carries no parts.
  std::vector<Verdict> judge(TimePoint now, const std::vector<std::optional<Counts>>& counts);
  /// At least one of those judged last is not.
  bool leftOut(size_t socket) const {
    return socket < sockets_.size() && sockets_[socket].until != TimePoint{};
  }
  /// Another socket has this number.
  void forget(size_t socket);

 private:
  struct Socket {
    Counts base, last;   // when this window began, and as of the latest look
    int lossyLooks = 0;  // in this window
    TimePoint until{};   // left out until then; TimePoint{}: it is not
    TimePoint since{};   // when it was taken again
    Duration rest{};     // for which it was left out last
  };
  void beginWindow(TimePoint now);
  std::optional<Verdict> worst(TimePoint now, const std::vector<std::optional<Counts>>& counts) const;

  std::vector<Socket> sockets_;  // by number
  TimePoint begun_{};            // the window
};

}  // namespace eccl::transport
