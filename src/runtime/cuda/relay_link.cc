#include "runtime/cuda/relay_link.h"

#include <algorithm>
#include <cstring>

#include "program/move_ends.h"

namespace eccl::runtime::cuda {
namespace {

using State = transport::Connection::State;

constexpr uint32_t kSignature = 0x72656c61;  // of all messages of relays
/// Two ranks have no more rings.
constexpr size_t kMostRings = 1 << 12;
/// So many messages of a connection are taken before others have their turn.
constexpr int kMostTaken = 64;

/// So many messages a kernel has released.
uint64_t releasedOf(const lanes::AtSender& sender) {
  return std::max(loadAcquire(&sender.released), lanes::kFirstMessage);
}

uint32_t linesFor(uint32_t length) {
  return (length + 7) / 8;
}

}  // namespace

RelayLink::RelayLink(int own, int peer, transport::Connection& to, transport::Connection& from,
                     std::function<void(std::span<std::byte>)> sendsFrom)
    : own_(own), peer_(peer), to_(to), from_(from), sendsFrom_(std::move(sendsFrom)) {
  // They are in use as long as this is there.
  to_.takeTicket();
  from_.takeTicket();
}

void RelayLink::add(const RingId& id, lanes::AtReceiver* receiver, lanes::AtSender* sender,
                    std::span<std::byte> memory) {
  Ring& ring = rings_[id];
  if (sends(id)) senders_.push_back({id, &ring, static_cast<uint32_t>(ring.strips.size())});
  ring.strips.push_back({receiver, sender, memory});
}

Result<bool> RelayLink::advance(bool ending, bool left, const Meeting& meeting) {
  if (lost_) return false;
  bool moved = false;
  Status status = check(left, meeting);
  if (status.ok() && from_.state() == State::ready) status = receive(&moved);
  lost_ = !status.ok();
  if (lost_) return status;
  if (to_.state() == State::ready && send(ending)) {
    to_.path()->kick();
    moved = true;
  }
  return moved;
}

/// Whether a Run needs a connection that fails is its matter: see failure().
Status RelayLink::check(bool left, const Meeting& meeting) const {
  const bool failed = to_.state() == State::failed;
  if (hasEnded_ ? hasLost() : (failed || (left && to_.state() != State::ready)) && hasUnsent()) {
    if (failed && !hasEnded_ && !left) return to_.failure();
    return Status::error(eccl::Code::remote, "%s has left the communicator or died, and is to receive",
                         meeting.describe(peer_).c_str());
  }
  return {};
}

Status RelayLink::failure() const {
  for (const transport::Connection* each : {&to_, &from_})
    if (each->state() == State::failed) return each->failure();
  return {};
}

/// It was not released, and never will be: who ends has told of all that he has released.
bool RelayLink::hasLost() const {
  return hasUnsent() || std::ranges::any_of(senders_, [](const Sender& sender) {
           const Strip& strip = sender.ring->strips[sender.strip];
           return strip.released != strip.next;
         });
}

/// A kernel here has sent something that is still here.
bool RelayLink::hasUnsent() const {
  const auto waits = [](const Strip& strip) {
    const uint32_t slot = strip.next % lanes::kSlots;
    uint32_t signature = 0, length = 0;
    return loadAcquire(&strip.receiver->headers[slot].sequence) == strip.next + 1 ||
           lanes::loadLine(strip.receiver->lines[slot], lanes::flagOf(strip.next), &signature, &length);
  };
  return outgoing_.strip != nullptr || std::ranges::any_of(rings_, [&](const auto& ring) {
           return sends(ring.first) && std::ranges::any_of(ring.second.strips, waits);
         });
}

bool RelayLink::ended() const {
  if (lost_) return true;
  if (to_.state() == State::failed) return !hasUnsent();
  return (told_ || to_.state() != State::ready) && !hasUnsent();
}

Status RelayLink::receive(bool* moved) {
  ReceiveEnd& end = from_.receiveEnd;
  int taken = 0;
  for (Received message; taken < kMostTaken && end.peek(message); ++taken) {
    if (interpreter::faultOf(end, message, kSignature, message.length, true) != LaneFault::none ||
        (message.flags & kSlotPut) != 0 || end.isInProcess(message))
      return wrong("a message that is none of a relay");
    Record record;
    ECCL_ASSIGN(std::byte* const to, placeFor(message.length, record));
    const bool reads = (message.flags & kSlotGet) != 0;
    if (reads && !end.beginReading()) break;  // it has failed, as everybody is about to hear
    std::memcpy(to, interpreter::dataOf(end, message, 0, nullptr), message.length);
    if (reads && !end.endReading()) break;
    end.release();
    if (incoming_.strip == nullptr)
      ECCL_TRY(hear(record));
    else
      incoming_.done += message.length;
    if (incoming_.strip != nullptr && incoming_.done == incoming_.record.length) deliver();
  }
  *moved = taken > 0;
  if (taken > 0) {
    owes_ = true;
    from_.path()->kick();
  } else if (std::exchange(owes_, false)) {
    from_.path()->settle();
  }
  return {};
}

/// Of a message of the connection: a record, or the next data.
Result<std::byte*> RelayLink::placeFor(uint32_t length, Record& record) const {
  if (incoming_.strip == nullptr) {
    if (length != sizeof record) return wrong("no record");
    return reinterpret_cast<std::byte*>(&record);
  }
  if (length == 0 || length > incoming_.record.length - incoming_.done)
    return wrong("other data than it has said");
  return incoming_.at + incoming_.done;
}

Status RelayLink::hear(const Record& record) {
  if (record.what == Record::ended) return hasEnded_ = true, Status();
  const bool comes = record.what == Record::slot || record.what == Record::lines;
  if (!comes && record.what != Record::released && record.what != Record::ready) return wrong("no record");
  const RingId id{comes ? peer_ : own_, comes ? own_ : peer_, record.channel, record.tag};
  if (record.what == Record::ready) {
    Ring& ring = rings_[id];
    if (record.strip <= ring.ready || record.strip > Rings::kMostStrips || rings_.size() > kMostRings)
      return wrong("a ring that cannot be");
    ring.ready = record.strip;
    return {};
  }
  const auto found = rings_.find(id);
  if (found == rings_.end() || record.strip >= found->second.strips.size())
    return wrong("something of a ring that is not there");
  Strip& strip = found->second.strips[record.strip];
  if (record.what == Record::released) {
    if (record.number <= strip.released || record.number > strip.next)
      return wrong("that it has released what it was not sent");
    strip.released = record.number;
    storeRelease(&strip.sender->released, record.number);
    return {};
  }
  const uint32_t most = record.what == Record::lines ? lanes::kLineBytes : lanes::kSlotBytes;
  if (record.length > most || record.number != strip.next ||
      strip.next - releasedOf(*strip.sender) >= lanes::kSlots)
    return wrong("a message that is out of turn");
  Data& data = incoming_;
  data.strip = &strip;
  data.record = record;
  data.done = 0;
  data.at = strip.receiver->slots[strip.next % lanes::kSlots];
  if (record.what == Record::lines) {
    data.unpacked.assign(linesFor(record.length) * size_t{8}, std::byte{});
    data.at = data.unpacked.data();
  }
  return {};
}

/// What has come, to a kernel here.
void RelayLink::deliver() {
  const Data& data = incoming_;
  Strip& strip = *std::exchange(incoming_.strip, nullptr);
  const uint64_t message = strip.next++;
  const uint32_t slot = message % lanes::kSlots;
  if (data.record.what == Record::slot) {
    lanes::Header& header = strip.receiver->headers[slot];
    header.signature = data.record.signature;
    header.length = data.record.length;
    header.reference = 0;
    storeRelease(&header.sequence, message + 1);
    return;
  }
  lanes::Line* const lines = strip.receiver->lines[slot];
  const uint32_t flag = lanes::flagOf(message);
  for (uint32_t i = 0; i < linesFor(data.record.length); ++i) {
    uint32_t halves[2];
    std::memcpy(halves, data.unpacked.data() + i * size_t{8}, sizeof halves);
    lanes::storeLine(lines + 1 + i, halves[0], halves[1], flag);
  }
  lanes::storeLine(lines, data.record.signature, data.record.length, flag);
}

bool RelayLink::send(bool ending) {
  bool moved = false;
  if (outgoing_.strip != nullptr) {
    moved |= sendData();
    if (outgoing_.strip != nullptr) return moved;
  }
  for (auto& [id, ring] : rings_)
    if (!sends(id)) moved |= tellOf(id, ring);
  for (size_t i = 0; i < senders_.size(); ++i) {
    const auto& [id, ring, number] = senders_[turn_ % senders_.size()];
    if (to_.sendEnd.reserve() == nullptr) return moved;
    ++turn_;
    if (number >= ring->ready || !find(ring->strips[number])) continue;
    outgoing_.record.strip = number;
    put(id, outgoing_.record);
    moved = true;
    sendData();
    if (outgoing_.strip != nullptr) return moved;
  }
  // Behind all that was released: what was not never will be.
  if (ending && !told_ && hasToldAll())
    moved |= told_ = put({own_, peer_, 0, 0}, {Record::ended, 0, 0, 0, 0, 0, 0});
  return moved;
}

/// Of what kernels here have released.
bool RelayLink::hasToldAll() const {
  return std::ranges::all_of(rings_, [&](const auto& ring) {
    return sends(ring.first) || std::ranges::all_of(ring.second.strips, [](const Strip& strip) {
             return strip.released == releasedOf(*strip.sender);
           });
  });
}

/// The sender of a ring: that it is here, and what kernels have released.
bool RelayLink::tellOf(const RingId& id, Ring& ring) {
  bool moved = false;
  if (const auto strips = static_cast<uint32_t>(ring.strips.size()); strips > ring.ready) {
    if (!put(id, {Record::ready, 0, 0, strips, 0, 0, 0})) return false;
    ring.ready = strips;
    moved = true;
  }
  for (uint32_t s = 0; s < ring.strips.size(); ++s) {
    Strip& strip = ring.strips[s];
    const uint64_t released = releasedOf(*strip.sender);
    if (released == strip.released) continue;
    if (!put(id, {Record::released, 0, 0, s, 0, 0, released})) break;
    strip.released = released;
    moved = true;
  }
  return moved;
}

/// A message that a kernel here has sent: all of it is there.
bool RelayLink::find(Strip& strip) {
  const uint64_t message = strip.next;
  const uint32_t slot = message % lanes::kSlots;
  Data& data = outgoing_;
  lanes::Header& header = strip.receiver->headers[slot];
  if (loadAcquire(&header.sequence) == message + 1) {
    data.record = {Record::slot, 0, 0, 0, header.signature, header.length, message};
    data.at = strip.receiver->slots[slot];
  } else {
    lanes::Line* const lines = strip.receiver->lines[slot];
    const uint32_t flag = lanes::flagOf(message);
    uint32_t signature = 0, length = 0;
    if (!lanes::loadLine(lines, flag, &signature, &length)) return false;
    const uint32_t count = linesFor(length);
    data.unpacked.resize(count * size_t{8});
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t halves[2];
      if (!lanes::loadLine(lines + 1 + i, flag, &halves[0], &halves[1])) return false;
      std::memcpy(data.unpacked.data() + i * size_t{8}, halves, sizeof halves);
    }
    data.record = {Record::lines, 0, 0, 0, signature, length, message};
    data.at = data.unpacked.data();
  }
  // As a kernel does that has read it.
  if (lanes::cleansAfter(message))
    for (lanes::Line& line : strip.receiver->lines[slot]) lanes::storeLine(&line, 0, 0, 0);
  data.done = 0;
  data.strip = &strip;
  ++strip.next;
  return true;
}

bool RelayLink::sendData() {
  Data& data = outgoing_;
  SendEnd& end = to_.sendEnd;
  const bool stays = data.record.what == Record::slot;  // until the other relay has taken it
  // Devices know memory that is used again.
  const std::span<std::byte> memory = data.strip->memory;
  if (stays && data.done == 0 && ++uses_[memory.data()] <= 2) sendsFrom_(memory);
  bool moved = false;
  while (data.done < data.record.length) {
    const uint32_t length = std::min(data.record.length - data.done, end.shape.slotBytes);
    std::byte* const from = data.at + data.done;
    uint64_t offset = 0;
    if (stays && end.reaches(from, length, &offset)) {
      Slot* const slot = end.reserve(length);
      if (slot == nullptr) break;
      slot->offset = offset;
      slot->sent.done = 0;
      end.publish(length, kSlotGet | kSlotLast, kSignature);
    } else if (!put(from, length)) {
      break;
    }
    data.done += length;
    moved = true;
  }
  if (data.done == data.record.length) data.strip = nullptr;
  return moved;
}

bool RelayLink::put(const RingId& id, Record record) {
  record.channel = std::get<2>(id);
  record.tag = std::get<3>(id);
  return put(&record, sizeof record);
}

bool RelayLink::put(const void* bytes, uint32_t length) {
  SendEnd& end = to_.sendEnd;
  if (end.reserve(length) == nullptr) return false;
  std::memcpy(end.place(length), bytes, length);
  end.publish(length, kSlotLast, kSignature);
  return true;
}

Status RelayLink::wrong(const char* what) const {
  return Status::error(eccl::Code::remote, "rank %d has sent rank %d %s: is another version of ECCL there?",
                       peer_, own_, what);
}

}  // namespace eccl::runtime::cuda
