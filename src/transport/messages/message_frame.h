// How a path that moves messages between two private rings describes them to the other side: the header of each
// message, and what the receiver says of releases. Little-endian, as it lies in memory. TCP sends it before the
// data; other transports as they send headers.
#pragma once

#include <cstdint>

#include "program/slot_ring.h"

namespace eccl::transport {

enum class FrameKind : uint32_t {
  message = 0,
  poison = 1,
  credit = 2,
  end = 3,
  ask = 4,
  leave = 5,
  grant = 6,
  lost = 7
};

/// A message travels in one part or several, each with a frame of its own. `bytes` bytes of payload belong to
/// it: those from `offset` on. Credits go the other way, or with messages (kTells).
struct MessageFrame {
  uint64_t sequence;  // message, ask: number of the message; lost: of the socket
  uint64_t released;  // credit, end, and messages with kTells: messages released so far; cumulative, so that
                      // several credits may be merged into one. Messages over another socket than the first:
                      // the sender's number of the socket
  uint32_t length;    // of the message
  uint32_t offset, bytes;
  uint32_t signature;
  uint16_t flags, epoch;
  /// ask: for a credit for all that has been released, and will be; end: the last credit, nothing more will be
  /// taken; leave: the last frame over this socket, which is not the first of several; grant: message number
  /// `sequence` may be written to the receiver's memory; lost: nothing counts any more that comes over socket
  /// `sequence`, and all its parts of messages that are not released follow (kAgain).
  FrameKind kind;
};
static_assert(sizeof(MessageFrame) == 40);

/// The flags that a message keeps on the wire: those that mean something outside the sender's memory.
inline constexpr uint16_t kSlotFlags = kSlotLast;
/// On the wire alone: the sender waits for the credit, because it sends from the user's memory.
inline constexpr uint16_t kWantsCredit = 1 << 15;
/// On the wire alone: the sender keeps fewer messages on their way than there are slots, so it waits for the
/// credit as soon as there is one.
inline constexpr uint16_t kWantsCreditSoon = 1 << 14;
/// On the wire alone: `released` is a credit for the messages that come the other way.
inline constexpr uint16_t kTells = 1 << 13;
inline constexpr uint16_t kWireFlags = kSlotFlags | kWantsCredit | kWantsCreditSoon | kTells;
/// On the wire alone: the part went over a socket that was lost, and may have come.
inline constexpr uint16_t kAgain = 1 << 12;

/// The frame of a published message as a whole.
inline MessageFrame frameOf(const SendEnd& end, uint64_t message) {
  const Slot& slot = *end.slot(message);
  const int wants =
      ((slot.flags & kSlotGet) != 0 ? kWantsCredit : 0) | (end.most < end.shape.slots ? kWantsCreditSoon : 0);
  return {message,
          0,
          slot.length,
          0,
          slot.length,
          slot.signature,
          static_cast<uint16_t>((slot.flags & kSlotFlags) | wants),
          slot.epoch,
          FrameKind::message};
}
/// Where its data is: in its slot, or in the user's memory (kOwnAddressSpace).
inline std::byte* payloadOf(const SendEnd& end, Slot& slot) {
  if ((slot.flags & kSlotGet) != 0) return kOwnAddressSpace.at(slot.offset);
  return end.dataOf(slot, slot.length);
}

}  // namespace eccl::transport
