// Whether the rails of this rank are up. A rail that goes down ends nobody's socket for minutes, while the
// control tree, on another rail, is well.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "transport/net/rails.h"

namespace eccl::transport {

/// Says some times in a second that it is time to look (Path::checkSockets()), once a connection has several
/// sockets, or flows that are placed. Owner: the Connector. Threads: the driver's. Failure: interfaces that
/// cannot be listed count as up.
class RailWatch {
 public:
  /// The name of the interface at this address if it is a rail that is down, else "".
  using DownAt = std::function<std::string(const SocketAddress& mine)>;

  /// `rails` outlive this.
  void start(const std::vector<Rail>& rails) {
    if (rails_ != nullptr) return;
    rails_ = &rails;
    next_ = TimePoint{};
  }
  /// For good, once it was started.
  void stop() { next_ = TimePoint::max(); }
  TimePoint nextDeadline() const { return next_; }
  /// Empty while it is not time to look.
  DownAt look(System& system);

 private:
  const std::vector<Rail>* rails_ = nullptr;
  TimePoint next_ = TimePoint::max();
};

}  // namespace eccl::transport
