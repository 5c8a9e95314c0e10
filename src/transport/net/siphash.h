// SipHash-2-4 with a 128-bit tag (Aumasson and Bernstein, https://github.com/veorq/SipHash).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace eccl::transport {

using Tag = std::array<uint8_t, 16>;

/// A keyed pseudo-random function: without the 16-byte key no tag can be predicted. Good as a message
/// authentication code; not a hash for data that an attacker chooses together with the key. Pure; any thread.
Tag sipHash128(const std::array<uint8_t, 16>& key, std::string_view data);

}  // namespace eccl::transport
