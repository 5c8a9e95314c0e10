// What a communicator's members know and strangers do not, and how knowing it is proved.
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

  static Secret random(System& system);
  /// 32 hexadecimal digits, surrounding white space allowed. `where` names the source in the error.
  static Result<Secret> fromHex(std::string_view text, const char* where);
  Tag mac(std::string_view message) const { return sipHash128(bytes, message); }
};

/// Names one Acceptor for good: 128 random bits, public. A handshake is bound to it, because addresses are not
/// unique (containers on two hosts share 172.17.0.2, and 127.0.0.1 is everybody).
using Identity = std::array<uint8_t, 16>;
Identity randomIdentity(System& system);

std::string toHex(const std::array<uint8_t, 16>& bytes);
/// Takes the same time wherever the difference is.
bool constantTimeEqual(const Tag& a, const Tag& b);

}  // namespace eccl::transport
