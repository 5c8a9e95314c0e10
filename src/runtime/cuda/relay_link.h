// What the relays of two ranks tell each other, and what they do to the rings of their sides: see relay.h.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/cuda/relay_slots.h"
#include "runtime/cuda/rings.h"

namespace eccl::runtime::cuda {

/// One side of a relay between two ranks. Owner: the Relay of rank `own`. Threads: the driver's.
class RelayLink {
 public:
  /// Two connections that nobody else uses, each from one of the ranks to the other, and two for slots. They
  /// outlive this. `uses`: ExecutorContext's.
  RelayLink(int own, int peer, transport::Connection& to, transport::Connection& from,
            transport::Connection& slotsTo, transport::Connection& slotsFrom,
            decltype(ExecutorContext::usesMemory) uses);

  /// A strip more of a ring between the two. What is not given of it stays as it is.
  void add(const RingId& id, const RelayStrip& strip);
  /// A strip that had better have slots apart, at another place than those that it has, which go back.
  struct Wish {
    RingId id;
    size_t strip;
    SlotsPlace place;
    std::shared_ptr<SlotsApart> had;
  };
  /// Those since this was last asked.
  std::vector<Wish> takeWishes() { return std::exchange(wishes_, {}); }
  /// The answer to one. `apart`: null if there are none.
  void setApart(const RingId& id, size_t strip, SlotsPlace place, std::shared_ptr<SlotsApart> apart,
                std::byte* slots, uint64_t slotsAt);
  /// Goes on with what has come and what is to be sent. True: something moved. `ending`: kernels here send and
  /// receive no more, and the other rank is told. `left`: it has left. Error, once, and then nothing more is
  /// done: the other rank cannot be reached, or is to receive and has left, or (remote) has sent what cannot
  /// be.
  Result<bool> advance(bool ending, bool left, const Meeting& meeting);
  /// All that kernels here have sent has left, or never will, and the other rank was told of the end.
  bool ended() const;
  /// Why one of the connections has failed, if one has.
  std::optional<transport::Breakage> failure() const;

 private:
  struct Ring {
    std::deque<RelayStrip> strips;
    // As the receiver has said, or as it was told: so many strips are there, and so many grant long messages.
    uint32_t ready = 0, grants = 0;
  };
  /// A message of the connection. What a message of a strip holds follows: of lines, in messages behind it; of
  /// slots, over the connection for these. slot: it comes without a grant; asks: it waits for one.
  struct Record {
    enum What : uint32_t { slot = 1, asks, lines, released, ready, grants, ended };
    uint32_t what;
    int16_t channel, tag;  // of the ring
    uint32_t strip;        // ready, grants: so many
    uint32_t signature, length;
    uint64_t number;  // of the message; released: before it all are
  };
  /// The data of a message in lines, on its way.
  struct Data {
    RelayStrip* strip = nullptr;  // null: there is none
    Record record{};
    uint32_t done = 0;  // bytes
    std::vector<std::byte> bytes;
  };

  bool sends(const RingId& id) const { return std::get<0>(id) == own_; }
  Status check(bool left, const Meeting& meeting) const;
  Status receive(bool* moved);
  Result<std::byte*> placeFor(uint32_t length, Record& record);
  Status hear(const Record& record);
  void deliver();
  void prepare();
  Result<bool> send(bool ending);
  bool tellOf(const RingId& id, Ring& ring);
  bool tell(const RingId& id, Record::What what, size_t strips, uint32_t& told);
  bool hasToldAll() const;
  bool hasUnsent() const;
  bool hasLost() const;
  bool find(RelayStrip& strip, bool granted);
  bool sendLines();
  bool put(const void* bytes, uint32_t length);
  bool put(const RingId& id, Record record);
  Status wrong(const char* what) const;

  const int own_, peer_;
  transport::Connection& to_;
  transport::Connection& from_;
  RelaySlots slots_;
  std::map<RingId, Ring> rings_;
  struct Sender {
    RingId id;
    Ring* ring;
    uint32_t strip;
  };
  std::vector<std::pair<RingId, size_t>> unprepared_;  // strips
  std::vector<Wish> wishes_;
  std::vector<Sender> senders_;  // all strips of rings that kernels here send by
  size_t turn_ = 0;              // whose turn it is
  Data outgoing_, incoming_;
  bool owes_ = false;  // releases of the connection, which may be held back
  bool told_ = false, hasEnded_ = false;
  bool lost_ = false;  // an error was told
};

}  // namespace eccl::runtime::cuda
