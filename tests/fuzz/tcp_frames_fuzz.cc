// What a peer says over the sockets of a TCP connection, to a receiver or a sender. The first byte chooses.
// Whatever it is, an end takes it, or breaks once and says why; and it does not touch what is not its own.
#include <cstdlib>
#include <memory>
#include <vector>

#include "transport/traffic.h"
#include "transport/wire.h"

namespace {

using namespace eccl;
using namespace eccl::transport;

constexpr size_t kSockets = 3;

void require(bool holds) {
  if (!holds) std::abort();
}

/// Pieces, each behind a byte with the number of its socket and two with its length. A piece of no bytes ends
/// its socket.
template <class Wire, class Visit>
void forPieces(Wire& wire, std::string_view bytes, const Visit& afterEach) {
  while (bytes.size() > 2) {
    const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    const size_t socket = at(0) % kSockets, said = size_t{at(1)} | size_t{at(2)} << 8;
    bytes.remove_prefix(3);
    const size_t length = std::min(said, bytes.size());
    if (length == 0 && wire.peers[socket]) wire.peers[socket].reset();
    if (wire.peers[socket]) {
      [[maybe_unused]] const ssize_t sent = send(wire.peers[socket].get(), bytes.data(), length, MSG_NOSIGNAL);
    }
    bytes.remove_prefix(length);
    while (wire.reactor.poll(Duration::zero())) {}
    afterEach();
    wire.path->checkSockets([](const SocketAddress&) { return std::string(); });
  }
  require(wire.breaks <= 1 && (wire.breaks == 1) == !wire.reason.empty());
}

void toReceiver(std::string_view bytes) {
  Receiving wire(SIZE_MAX, 0, System::real(), kSockets);
  const auto offered = std::make_unique<std::byte[]>(200);  // of just that size
  wire.end.mine = kOwnAddressSpace;
  wire.end.directFrom = 100;
  wire.end.offer(1, offered.get(), 200);
  wire.end.offer(3, offered.get(), 120);
  forPieces(wire, bytes, [&] {
    Received received;
    while (!wire.end.poisoned() && wire.end.peek(received)) {
      require(received.length <= kShape.slotBytes);
      wire.end.release();
    }
    wire.path->poll();
    wire.path->flush();
  });
}

void toSender(std::string_view bytes) {
  Sending wire(SIZE_MAX, 0, System::real(), kSockets);
  const std::vector<std::byte> lengths[] = {std::vector<std::byte>(8), std::vector<std::byte>(200)};
  uint64_t sent = 0;
  forPieces(wire, bytes, [&] {
    for (const auto& each : lengths)
      if (wire.breaks == 0 && trySend(wire.end, each, 3)) ++sent;
    wire.path->kick();
    wire.path->poll();
    require(wire.end.control->released <= sent);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  GTEST_FLAG_SET(break_on_failure, true);  // of what the wire expects
  (static_cast<uint8_t>(bytes[0]) % 2 == 0 ? toReceiver : toSender)(bytes.substr(1));
  return 0;
}
