#include "transport/tcp/sent_parts.h"

#include "transport/messages/message_frame.h"

namespace eccl::transport {
namespace {

bool isReleased(const SendEnd& end, uint64_t message) {
  return static_cast<int64_t>(message - loadAcquire(&end.control->released)) < 0;
}

}  // namespace

void SentParts::add(const SendEnd& end, uint64_t message, uint32_t offset, uint32_t bytes) {
  while (!parts_.empty() && isReleased(end, parts_.front().message)) parts_.pop_front();
  parts_.push_back({message, offset, bytes});
}

std::string SentParts::again(const SendEnd& end) const {
  std::string all;
  for (const Part& part : parts_) {
    if (isReleased(end, part.message)) continue;
    MessageFrame frame = frameOf(end, part.message);
    frame.offset = part.offset;
    frame.bytes = part.bytes;
    frame.flags |= kAgain;
    all.append(reinterpret_cast<const char*>(&frame), sizeof frame);
    const std::byte* const data = payloadOf(end, *end.slot(part.message)) + part.offset;
    all.append(reinterpret_cast<const char*>(data), part.bytes);
  }
  return all;
}

}  // namespace eccl::transport
