// What the relays of two ranks tell each other, and what they do to the rings of their sides: see relay.h.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "runtime/cuda/lanes/block.h"
#include "runtime/cuda/rings.h"
#include "runtime/executor/executor.h"
#include "transport/core/connection.h"

namespace eccl::runtime::cuda {

/// One side of a relay between two ranks. Owner: the Relay of rank `own`. Threads: the driver's.
class RelayLink {
 public:
  /// Two connections that nobody else uses, each from one of the ranks to the other. They outlive this.
  /// `sendsFrom`: ExecutorContext's.
  RelayLink(int own, int peer, transport::Connection& to, transport::Connection& from,
            std::function<void(std::span<std::byte>)> sendsFrom);

  /// A strip more of a ring between the two. Its memory, as the host reaches it, lies in `memory`.
  void add(const RingId& id, lanes::AtReceiver* receiver, lanes::AtSender* sender, std::span<std::byte> memory);
  /// Goes on with what has come and what is to be sent. True: something moved. `ending`: kernels here send and
  /// receive no more, and the other rank is told. `left`: it has left. Error, once, and then nothing more is
  /// done: the other rank cannot be reached, or is to receive and has left, or (remote) has sent what cannot
  /// be.
  Result<bool> advance(bool ending, bool left, const Meeting& meeting);
  /// All that kernels here have sent has left, or never will, and the other rank was told of the end.
  bool ended() const;
  /// Why one of the connections has failed, if one has.
  Status failure() const;

 private:
  struct Strip {
    lanes::AtReceiver* receiver;
    lanes::AtSender* sender;
    std::span<std::byte> memory;
    uint64_t next = lanes::kFirstMessage;      // number of the next message to be sent, or to come
    uint64_t released = lanes::kFirstMessage;  // as the receiver has said, or as it was told
  };
  struct Ring {
    std::deque<Strip> strips;
    uint32_t ready = 0;  // strips that the receiver has, as it has said, or as it was told
  };
  /// A message of the connection. What a message of a strip holds follows in messages of its own.
  struct Record {
    enum What : uint32_t { slot = 1, lines, released, ready, ended };
    uint32_t what;
    int16_t channel, tag;  // of the ring
    uint32_t strip;        // ready: so many
    uint32_t signature, length;
    uint64_t number;  // of the message; released: before it all are
  };
  /// The data of a strip's message, on its way.
  struct Data {
    Strip* strip = nullptr;  // null: there is none
    Record record{};
    std::byte* at = nullptr;
    uint32_t done = 0;                // bytes
    std::vector<std::byte> unpacked;  // of lines
  };

  bool sends(const RingId& id) const { return std::get<0>(id) == own_; }
  Status check(bool left, const Meeting& meeting) const;
  Status receive(bool* moved);
  Result<std::byte*> placeFor(uint32_t length, Record& record) const;
  Status hear(const Record& record);
  void deliver();
  bool send(bool ending);
  bool tellOf(const RingId& id, Ring& ring);
  bool hasToldAll() const;
  bool hasUnsent() const;
  bool hasLost() const;
  bool find(Strip& strip);
  bool sendData();
  bool put(const void* bytes, uint32_t length);
  bool put(const RingId& id, Record record);
  Status wrong(const char* what) const;

  const int own_, peer_;
  transport::Connection& to_;
  transport::Connection& from_;
  const std::function<void(std::span<std::byte>)> sendsFrom_;
  std::map<RingId, Ring> rings_;
  struct Sender {
    RingId id;
    Ring* ring;
    uint32_t strip;
  };
  std::vector<Sender> senders_;  // all strips of rings that kernels here send by
  size_t turn_ = 0;              // whose turn it is
  Data outgoing_, incoming_;
  std::map<std::byte*, uint64_t> uses_;  // of memory, for long messages
  bool owes_ = false;                    // releases of the connection, which may be held back
  bool told_ = false, hasEnded_ = false;
  bool lost_ = false;  // an error was told
};

}  // namespace eccl::runtime::cuda
