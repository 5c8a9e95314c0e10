// The messages of a connection that are on their way, put together from their parts.
#pragma once

#include <memory>
#include <vector>

#include "transport/messages/message_frame.h"

namespace eccl::transport {

/// At most a ring's worth of messages, whose parts may come in any order. Owner and
/// threads: the receiving path's.
class Assemblies {
 public:
  /// One message.
  struct Message {
    uint64_t number = 0;
    bool begun = false;
    uint16_t placed = 0;   // kSlotPut if `data` is the user's memory
    MessageFrame frame{};  // of its first part to come
    std::byte* data = nullptr;
    uint32_t missing = 0;    // bytes that have not come
    uint32_t unclaimed = 0;  // bytes of which no frame has come
  };

  /// `end` is the lane's, and outlives this.
  explicit Assemblies(ReceiveEnd& end);
  /// The message that a part belongs to; the first part decides where the payload goes: to memory that is
  /// offered for it, else into a slot. nullptr: there cannot be such a part, and *wrong says why.
  Message* begin(const MessageFrame& frame, const char** wrong);
  /// `bytes` more of it are where they belong. Publishes the message with the last of them.
  void add(Message& message, uint32_t bytes);
  /// A part of which `came` bytes have come counts as not begun.
  void takeBack(Message& message, uint32_t bytes, uint32_t came) {
    message.unclaimed += bytes;
    message.missing += came;
  }
  /// All of this message has come, now or long ago.
  bool isComplete(uint64_t number) const;

 private:
  const char* faultOf(const MessageFrame& frame) const;
  /// Others lie in their slot, or right behind it.
  bool takesArea(uint32_t length) const { return length > kInlineBytes && length > end_.shape.shortBytes; }
  std::byte* place(uint64_t number, uint32_t length);
  void reclaim();

  ReceiveEnd& end_;
  std::unique_ptr<Message[]> messages_;  // by number, modulo slots
  /// Areas of data that no message uses. The last one given back is taken first: it is in the caches, and
  /// others may never have been touched.
  std::vector<uint32_t> free_;
  uint64_t reclaimed_;  // areas of messages before this one are in free_
};

}  // namespace eccl::transport
