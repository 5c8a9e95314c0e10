// What a peer says over RDMA: while a connection is set up, and in frames to a receiver or a sender. The first
// byte chooses. Whatever it is, an end takes it, or breaks once and says why; and it does not touch what is not
// its own.
#include <cstdlib>
#include <memory>
#include <vector>

#include "transport/traffic.h"
#include "verbs/verbs_meeting.h"

namespace {

using namespace eccl;
using namespace eccl::transport;
using namespace eccl::transport::verbs;

void require(bool holds) {
  if (!holds) std::abort();
}

/// In memory of just that size.
void tell(VerbsPath& path, std::string_view bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  path.onFrame(copy.get(), static_cast<uint32_t>(bytes.size()));
}

/// One frame after the other, each behind two bytes with its length, as far as a queue pair has room for.
template <class Visit>
void forFrames(std::string_view bytes, uint32_t most, const Visit& visit) {
  while (bytes.size() > 2) {
    const auto said = static_cast<size_t>(static_cast<uint8_t>(bytes[0]) | static_cast<uint8_t>(bytes[1]) << 8);
    bytes.remove_prefix(2);
    const size_t length = std::min({said, bytes.size(), size_t{most}});
    visit(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
}

void toReceiver(std::string_view bytes) {
  VerbsWire<VerbsReceiver, ReceiveEnd> wire;
  std::vector<std::byte> offered(3000), beside(3000);
  wire.registrations->add({offered.data(), offered.size()});
  wire.end.offer(1, offered.data(), 3000);
  wire.end.offer(3, offered.data(), 200);
  wire.path->kick();
  uint64_t taken = 0;
  forFrames(bytes, sizeof(VerbsFrame) + kInFrame, [&](std::string_view frame) {
    tell(*wire.path, frame);
    Received received;
    while (wire.breaks == 0 && wire.end.peek(received)) {
      require(received.length <= kWireShape.slotBytes);
      wire.end.release();
      ++taken;
    }
    wire.path->flush();
    wire.look();
  });
  require(wire.breaks <= 1 && (wire.breaks == 1) == !wire.reason.empty() && taken <= bytes.size());
  wire.registrations->remove({offered.data(), offered.size()});
}

void toSender(std::string_view bytes) {
  VerbsWire<VerbsSender, SendEnd> wire;
  const std::vector<std::byte> lengths[] = {std::vector<std::byte>(8), std::vector<std::byte>(kInFrame),
                                            std::vector<std::byte>(2000)};
  uint64_t sent = 0;
  forFrames(bytes, sizeof(VerbsFrame), [&](std::string_view frame) {
    for (const auto& each : lengths)
      if (wire.breaks == 0 && trySend(wire.end, each, 3)) ++sent;
    wire.path->kick();
    wire.look();
    tell(*wire.path, frame);
    wire.look();
    require(wire.end.control->released <= sent);
  });
  require(wire.breaks <= 1 && (wire.breaks == 1) == !wire.reason.empty());
}

bool changesNothing(std::string_view by) {
  return by.find_first_not_of('\0') == by.npos && by.size() <= 4;  // what a confirmation has
}

void toAcceptor(std::string_view bytes) {
  VerbsMeeting meeting;
  require(meeting.offer(bytes).ok() || !changesNothing(bytes));
}

void toOfferer(std::string_view bytes) {
  VerbsMeeting meeting;
  require(meeting.offer().ok());
  require(meeting.answer(bytes).ok() || !changesNothing(bytes));
}

void toConfirmed(std::string_view bytes) {
  VerbsMeeting meeting;
  require(meeting.offer().ok() && meeting.answer().ok());
  require(meeting.confirm(bytes).ok() == changesNothing(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  GTEST_FLAG_SET(break_on_failure, true);  // of what VerbsWire expects
  constexpr decltype(&toReceiver) kAll[] = {toReceiver, toSender, toAcceptor, toOfferer, toConfirmed};
  kAll[static_cast<uint8_t>(bytes[0]) % std::size(kAll)](bytes.substr(1));
  return 0;
}
