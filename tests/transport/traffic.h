// What lanes do with the ends of a connection, for tests.
#pragma once

#include <cstring>
#include <vector>

#include "transport/party.h"

namespace eccl {

/// A reproducible stream of numbers (splitmix64).
struct Numbers {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return next() % bound; }
};

/// The content of message k: its length is random, with the borders of inline and full slots frequent.
inline std::vector<std::byte> content(uint64_t k, uint32_t slotBytes) {
  Numbers numbers{k};
  const uint32_t borders[] = {0, 1, kInlineBytes, kInlineBytes + 1, slotBytes - 1, slotBytes};
  const uint64_t pick = numbers.below(12);
  std::vector<std::byte> bytes(pick < 6 ? borders[pick] : numbers.below(slotBytes + 1));
  for (std::byte& b : bytes) b = static_cast<std::byte>(numbers.next());
  return bytes;
}

/// Publishes if there is a slot. By reference where the path allows and `bytes` are long enough.
inline bool trySend(SendEnd& end, const std::vector<std::byte>& bytes, uint32_t signature, bool last = false) {
  Slot* slot = end.reserve();
  if (slot == nullptr) return false;
  uint16_t flags = last ? kSlotLast : 0;
  if (bytes.size() >= end.referenceFrom) {
    slot->window = kOwnAddressSpace;
    slot->offset = reinterpret_cast<uint64_t>(bytes.data());
    flags |= kSlotReference;
  } else if (!bytes.empty()) {
    std::memcpy(bytes.size() <= kInlineBytes ? slot->inlineData : slot->data(), bytes.data(), bytes.size());
  }
  end.publish(static_cast<uint32_t>(bytes.size()), flags, signature);
  return true;
}

/// Whether the message peeked at has this content. `granted`: where a placed message would be.
inline bool holds(ReceiveEnd& end, const Received& received, const std::vector<std::byte>& expected,
                  const std::byte* granted = nullptr) {
  if (received.length != expected.size()) return false;
  if (expected.empty()) return true;
  const std::byte* at = received.data;
  const bool reference = (received.flags & kSlotReference) != 0;
  if ((received.flags & kSlotPlaced) != 0) {
    if (granted == nullptr) return false;
    at = granted;
  } else if (reference) {
    if (received.window >= end.windowCount || !end.beginReading()) return false;
    at = reinterpret_cast<const std::byte*>(received.offset);
  }
  const bool same = std::memcmp(at, expected.data(), expected.size()) == 0;
  if (reference) end.endReading();
  return same;
}

/// Sends messages [0, count) as content() makes them, and waits until all are released.
inline std::string sendAll(Party& party, Connection& connection, uint64_t count) {
  SendEnd& end = connection.sendEnd;
  // References: the memory stays until released.
  std::vector<std::vector<std::byte>> held(end.shape.slots);
  for (uint64_t k = 0; k < count; ++k) {
    PARTY_CHECK(party.until([&] { return end.reserve() != nullptr || end.poisoned(); }));
    std::vector<std::byte>& bytes = held[k % held.size()];
    bytes = content(k, end.shape.slotBytes);
    PARTY_CHECK(trySend(end, bytes, static_cast<uint32_t>(k * 7), k % 3 == 0));
    connection.path()->kick();
  }
  PARTY_CHECK(party.until([&] { return connection.path()->drained(); }));
  PARTY_CHECK(end.referencesReleased());
  return "";
}

inline std::string receiveAll(Party& party, Connection& connection, uint64_t count) {
  ReceiveEnd& end = connection.receiveEnd;
  Received received;
  for (uint64_t k = 0; k < count; ++k) {
    PARTY_CHECK(party.until([&] { return end.peek(received) || end.poisoned(); }));
    PARTY_CHECK(end.peek(received));
    PARTY_CHECK(received.signature == static_cast<uint32_t>(k * 7));
    PARTY_CHECK(((received.flags & kSlotLast) != 0) == (k % 3 == 0));
    PARTY_CHECK(received.epoch == end.epoch);
    PARTY_CHECK(holds(end, received, content(k, end.shape.slotBytes)));
    end.release();
    connection.path()->kick();
  }
  PARTY_CHECK(!end.peek(received));
  connection.path()->flush();
  PARTY_CHECK(party.until([&] { return connection.path()->drained(); }));
  return "";
}

}  // namespace eccl
