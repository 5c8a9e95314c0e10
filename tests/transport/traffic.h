// What lanes do with the ends of a connection, for tests.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "transport/connect/rank_transports.h"
#include "transport/party.h"
#include "transport/shm/shared_heap.h"

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

/// Publishes if there is a slot. By reference or to offered memory where the path allows and `bytes` are long
/// enough.
inline bool trySend(SendEnd& end, std::span<const std::byte> bytes, uint32_t signature, bool last = false) {
  const auto length = static_cast<uint32_t>(bytes.size());
  Slot* slot = end.reserve(length);
  if (slot == nullptr) return false;
  uint16_t flags = last ? kSlotLast : 0;
  if (uint64_t offset; end.reaches(bytes.data(), length, &offset)) {
    slot->offset = offset;
    flags |= kSlotGet;
  } else if (std::byte* place = end.offered(length); place != nullptr) {
    if (!end.beginWriting()) return false;
    std::memcpy(place, bytes.data(), bytes.size());
    end.endWriting();
    flags |= kSlotPut;
  } else if (!bytes.empty()) {
    std::memcpy(end.place(length), bytes.data(), bytes.size());
  }
  end.publish(length, flags, signature);
  return true;
}

/// Whether the message peeked at has this content. `offered`: where a placed message would be.
inline bool holds(ReceiveEnd& end, const Received& received, std::span<const std::byte> expected,
                  const std::byte* offered = nullptr) {
  if (received.length != expected.size()) return false;
  if (expected.empty()) return true;
  const std::byte* at = received.data;
  const bool reference = (received.flags & kSlotGet) != 0;
  if ((received.flags & kSlotPut) != 0) {
    if (offered == nullptr) return false;
    at = offered;
  } else if (reference) {
    if (!end.theirs.holds(received.offset, received.length) || !end.beginReading()) return false;
    at = end.theirs.at(received.offset);
  }
  const bool same = std::memcmp(at, expected.data(), expected.size()) == 0;
  if (reference) end.endReading();
  return same;
}

/// User memory that other processes can reach, all bytes `value`; freed with the object.
class HeapMemory {
 public:
  HeapMemory(size_t bytes, std::byte value) : bytes_(bytes) {
    memory_ = static_cast<std::byte*>(transport::SharedHeap::ofThisProcess().allocate(bytes).take());
    std::fill_n(memory_, bytes, value);
  }
  ~HeapMemory() { transport::SharedHeap::ofThisProcess().free(memory_).ignore(); }
  HeapMemory(const HeapMemory&) = delete;
  std::byte* data() { return memory_; }
  std::span<const std::byte> bytes() const { return {memory_, bytes_}; }

 private:
  std::byte* memory_;
  const size_t bytes_;
};

/// The same, registered with the transports of a party.
class RegisteredMemory : public HeapMemory {
 public:
  RegisteredMemory(Party& party, size_t bytes, std::byte value) : HeapMemory(bytes, value), party_(party) {
    party_.connector->transports().registerMemory({data(), bytes});
  }
  ~RegisteredMemory() { party_.connector->transports().deregisterMemory({data(), bytes().size()}); }

 private:
  Party& party_;
};

/// Sends messages [0, count) as content() makes them, and waits until all are released.
inline std::string sendAll(Party& party, transport::Connection& connection, uint64_t count) {
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
  PARTY_CHECK(end.getsReleased());
  return "";
}

inline std::string receiveAll(Party& party, transport::Connection& connection, uint64_t count) {
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
