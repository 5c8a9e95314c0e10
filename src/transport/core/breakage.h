// What broke a connection, and which end of it may know why.
#pragma once

#include <string>
#include <utility>

namespace eccl::transport {

/// Why a connection is broken, as the end that tells of it sees it.
struct Breakage {
  Breakage() = default;
  Breakage(std::string reason, bool byPeer = false) : reason(std::move(reason)), byPeer(byPeer) {}  // NOLINT
  /// The call "sending to it" or "receiving from it" has failed with `error`; 0: at the end of the stream.
  static Breakage ofSocket(const char* call, int error);

  std::string reason;
  bool byPeer = false;  ///< The peer has ended the connection: what it knows is the cause, if it tells of one.
};

}  // namespace eccl::transport
