// What goes over a queue pair: a frame in a SEND, with the data behind it or written before it.
#pragma once

#include "transport/messages/message_frame.h"

namespace eccl::transport::verbs {

/// Messages up to so many bytes travel in one request, behind their frame, and are copied out by the receiver.
/// A request of its own for the data takes the device about as long as that copy.
inline constexpr uint32_t kInFrame = 1024;

/// How a message's data comes: by the queue pair that its frame comes by. What was written has arrived when the
/// frame has: a queue pair's requests are done in order, and a receive completes after the writes before it can
/// be seen (InfiniBand specification, volume 1, 9.5: transaction ordering). With relaxed ordering, or over
/// several ways through the network, that holds for the completion alone; nothing here looks at the memory
/// before.
enum class Way : uint32_t {
  inFrame,  ///< behind the frame
  landed,   ///< written to the place of its slot
  granted,  ///< written to where a grant said
};

/// Little-endian, as it lies in memory.
struct VerbsFrame {
  MessageFrame frame;
  /// Of a grant: message number frame.sequence, of frame.length bytes, may be written there. Of a message that
  /// has landed: the number of its place.
  uint64_t address;
  uint32_t key;
  Way way;  // of a message
};
static_assert(sizeof(VerbsFrame) == 56);

}  // namespace eccl::transport::verbs
