// Framed messages over an authenticated stream socket: the language of the rendezvous and the control tree.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "transport/net/stream.h"

namespace eccl::transport {

/// What a frame says, from whom to whom. Values go over the wire.
enum class FrameType : uint8_t {
  join = 1,        ///< rank -> root: my Endpoint; target: nranks, sequence: milliseconds it will wait
  welcome = 2,     ///< root -> rank: the parent's Endpoint, empty for rank 0
  refusal = 3,     ///< root -> rank: why there will be no communicator; kind: the Code
  heartbeat = 4,   ///< neighbour -> neighbour
  disconnect = 5,  ///< neighbour -> neighbour: orderly end, nothing follows
  flood = 6,       ///< to everybody
  routed = 7,      ///< to `target`
  departed = 8,    ///< to everybody: `target` is gone; kind 0 lost, 1 disconnected; the body says why
  part = 9,  ///< upwards to rank 0: origin's part of allGather number `sequence`; target: milliseconds it will
             ///< wait
  parts = 10,    ///< from rank 0 downwards: all parts
  noParts = 11,  ///< from rank 0 downwards: why there are none; kind: the Code
  later = 12,    ///< root -> rank: noted; hang up and join again in `sequence` milliseconds, for the answer
};

/// As it lies on the wire, followed by `size` bytes.
struct FrameHeader {
  uint32_t size = 0;
  FrameType type = FrameType::heartbeat;
  uint8_t zero = 0;
  uint16_t kind = 0;
  int32_t origin = 0;
  int32_t target = 0;
  uint64_t sequence = 0;
};
static_assert(sizeof(FrameHeader) == 24);

/// One message of the rendezvous or the control tree.
struct Frame {
  FrameHeader header;
  std::string body;

  /// No frame is longer; a peer that announces one is cut off before anything is allocated for it.
  static constexpr uint32_t kMaxBody = 64u << 20;

  /// Header and body, ready to send; shared so that one copy serves all neighbours.
  std::shared_ptr<const std::string> encode() const;
  /// The first frame of `bytes`, which is advanced past it; nothing when it is not complete yet. Error (remote)
  /// when no frame can begin like this.
  static Result<std::optional<Frame>> take(std::string_view& bytes);
};

/// One non-blocking socket with frames in both directions. Owns the socket. One thread. Failure: the Status
/// of flush() or receive(); the object is useless from then on, and its owner, who knows the peer, names it.
/// Not logged.
class FrameSocket {
 public:
  /// More waiting than this means that the peer has stopped reading for good.
  static constexpr size_t kMaxQueued = 256u << 20;

  FrameSocket() = default;
  explicit FrameSocket(Stream socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  const Fd& socket() const { return socket_.fd(); }
  void close() { socket_.reset(); }

  /// Appends to the queue; flush() sends.
  void queue(std::shared_ptr<const std::string> encoded);
  void queue(const Frame& frame) { queue(frame.encode()); }
  /// Sends what the socket takes. Error (remote): too much is waiting. A connection that breaks shows in
  /// receive(), behind what had arrived before.
  Status flush();
  bool hasQueued() const { return !queue_.empty(); }
  /// Ends the sending direction; the queue must be empty. Receiving goes on.
  void finishSending();

  /// Reads what is there, at most about 1 MiB, and hands every complete frame to `onFrame`. Stops when that
  /// returns an error, which is passed on, or false; it must not be called again then. `*ended` is set by the
  /// call that finds the peer's end. Error (remote): a malformed frame, or a broken connection, after the
  /// frames that had arrived before.
  Status receive(const std::function<Result<bool>(Frame&&)>& onFrame, bool* ended);

 private:
  Stream socket_;
  std::string input_;
  std::list<std::shared_ptr<const std::string>> queue_;
  size_t sentOfFirst_ = 0;
  size_t queuedBytes_ = 0;
};

}  // namespace eccl::transport
