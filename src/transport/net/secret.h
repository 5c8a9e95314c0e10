// What a communicator's members know and strangers do not, and how they prove that they know it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/system.h"
#include "transport/net/siphash.h"

namespace eccl::transport {

/// The 128-bit key shared by all ranks of a communicator. It travels in the unique id, never over a socket.
struct Secret {
  std::array<uint8_t, 16> bytes{};
  /// Whether TCP connections that are made with it are encrypted (ECCL_ENCRYPT). No part of the key.
  bool encrypts = false;

  static Secret random(System& system);
  /// The same for a connection that does not leave the host.
  Secret withinHost() const { return {bytes, false}; }
  /// 32 hexadecimal digits, surrounding white space allowed. `where` names the source in the error
  /// (invalidArgument), which never shows the text. Not logged.
  static Result<Secret> fromHex(std::string_view text, const char* where);
  /// The proof of knowing the secret, for this message: see sipHash128().
  Tag mac(std::string_view message) const { return sipHash128(bytes, message); }
};

/// Names one Acceptor for good: 128 random bits, public. A handshake is bound to it, because addresses are not
/// unique (containers on two hosts share 172.17.0.2, and 127.0.0.1 is everybody).
using Identity = std::array<uint8_t, 16>;
Identity randomIdentity(System& system);

/// 32 digits, in lower case.
std::string toHex(const std::array<uint8_t, 16>& bytes);
/// Takes the same time wherever the difference is.
bool constantTimeEqual(const Tag& a, const Tag& b);

}  // namespace eccl::transport
