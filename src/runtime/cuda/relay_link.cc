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
                     transport::Connection& slotsTo, transport::Connection& slotsFrom,
                     decltype(ExecutorContext::usesMemory) uses)
    : own_(own), peer_(peer), to_(to), from_(from), slots_(slotsTo, slotsFrom, std::move(uses)) {
  // They are in use as long as this is there.
  for (transport::Connection* each : {&to, &from, &slotsTo, &slotsFrom}) each->takeTicket();
}

void RelayLink::add(const RingId& id, const RelayStrip& strip) {
  Ring& ring = rings_[id];
  if (sends(id)) senders_.push_back({id, &ring, static_cast<uint32_t>(ring.strips.size())});
  ring.strips.push_back(strip);
  unprepared_.emplace_back(id, ring.strips.size() - 1);
}

void RelayLink::setApart(const RingId& id, size_t strip, SlotsPlace place, std::shared_ptr<SlotsApart> apart,
                         std::byte* slots, uint64_t slotsAt) {
  RelayStrip& its = rings_.at(id).strips[strip];
  its.place = place;
  its.apart = std::move(apart);
  its.slots = slots;
  its.slotsAt = slotsAt;
  unprepared_.emplace_back(id, strip);
}

Result<bool> RelayLink::advance(bool ending, bool left, const Meeting& meeting) {
  if (lost_) return false;
  const Result<bool> moved = [&]() -> Result<bool> {
    bool any = false;
    ECCL_TRY(check(left, meeting));
    if (!unprepared_.empty()) prepare();
    if (from_.state() == State::ready) ECCL_TRY(receive(&any));
    if (slots_.from().state() == State::ready) {
      const Result<bool> its = slots_.receiveAll();
      if (!its.ok() && its.status().code() == eccl::Code::remote) return wrong(its.status().message().c_str());
      ECCL_TRY(its.status());
      any |= *its;
    }
    if (to_.state() == State::ready) {
      ECCL_ASSIGN(const bool its, send(ending));
      if (its) to_.path()->kick();
      any |= its;
    }
    return any;
  }();
  lost_ = !moved.ok();
  if (!moved.ok() && moved.status().code() == eccl::Code::internal)
    return Status::error(eccl::Code::internal, "%s, between rank %d and rank %d: set ECCL_CUDA_RELAY=0",
                         moved.status().message().c_str(), own_, peer_);
  return moved;
}

/// What can be by now.
void RelayLink::prepare() {
  std::erase_if(unprepared_, [this](const auto& each) {
    const auto& [id, number] = each;
    if ((sends(id) ? slots_.to() : slots_.from()).state() != State::ready) return false;
    RelayStrip& strip = rings_[id].strips[number];
    if (const auto place = slots_.prepare(strip, sends(id)))
      wishes_.push_back({id, number, *place, std::exchange(strip.apart, nullptr)});
    return true;
  });
}

/// Whether a Run needs a connection that fails is its matter: see failure().
Status RelayLink::check(bool left, const Meeting& meeting) const {
  const transport::Connection& to = slots_.to().state() == State::failed ? slots_.to() : to_;
  const bool failed = to.state() == State::failed;
  const bool ready = to_.state() == State::ready && slots_.to().state() == State::ready;
  if (hasEnded_ ? hasLost() : (failed || (left && !ready)) && hasUnsent()) {
    if (failed && !hasEnded_ && !left)
      return Status::error(eccl::Code::remote, "%s", to.failure().message().c_str());
    return Status::error(eccl::Code::remote, "%s has left the communicator or died, and is to receive",
                         meeting.describe(peer_).c_str());
  }
  return {};
}

std::optional<transport::Breakage> RelayLink::failure() const {
  const std::initializer_list<const transport::Connection*> all = {&to_, &from_, &slots_.to(), &slots_.from()};
  for (const transport::Connection* each : all)
    if (each->state() == State::failed) return each->breakage();
  return {};
}

/// It was not released, and never will be: who ends has told of all that he has released.
bool RelayLink::hasLost() const {
  return hasUnsent() || std::ranges::any_of(senders_, [](const Sender& sender) {
           const RelayStrip& strip = sender.ring->strips[sender.strip];
           return strip.released != strip.next;
         });
}

/// A kernel here has sent something that is still here.
bool RelayLink::hasUnsent() const {
  const auto waits = [](const RelayStrip& strip) {
    const uint32_t slot = strip.next % lanes::kSlots;
    uint32_t signature = 0, length = 0;
    return loadAcquire(&strip.receiver->headers[slot].sequence) == strip.next + 1 ||
           lanes::loadLine(strip.receiver->lines[slot], lanes::flagOf(strip.next), &signature, &length);
  };
  return outgoing_.strip != nullptr || slots_.hasUnsent() || std::ranges::any_of(rings_, [&](const auto& ring) {
           return sends(ring.first) && std::ranges::any_of(ring.second.strips, waits);
         });
}

bool RelayLink::ended() const {
  if (lost_) return true;
  if (to_.state() == State::failed || slots_.to().state() == State::failed) return !hasUnsent();
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
Result<std::byte*> RelayLink::placeFor(uint32_t length, Record& record) {
  if (incoming_.strip == nullptr) {
    if (length != sizeof record) return wrong("no record");
    return reinterpret_cast<std::byte*>(&record);
  }
  if (length == 0 || length > incoming_.record.length - incoming_.done)
    return wrong("other data than it has said");
  return incoming_.bytes.data() + incoming_.done;
}

Status RelayLink::hear(const Record& record) {
  if (record.what == Record::ended) return hasEnded_ = true, Status();
  if (record.what < Record::slot || record.what > Record::ended) return wrong("no record");
  const bool comes = record.what <= Record::lines;
  const RingId id{comes ? peer_ : own_, comes ? own_ : peer_, record.channel, record.tag};
  if (record.what == Record::ready || record.what == Record::grants) {
    Ring& ring = rings_[id];
    uint32_t& strips = record.what == Record::ready ? ring.ready : ring.grants;
    if (record.strip <= strips || record.strip > Rings::kMostStrips || rings_.size() > kMostRings)
      return wrong("a ring that cannot be");
    strips = record.strip;
    return {};
  }
  const auto found = rings_.find(id);
  if (found == rings_.end() || record.strip >= found->second.strips.size())
    return wrong("something of a ring that is not there");
  RelayStrip& strip = found->second.strips[record.strip];
  if (record.what == Record::released) {
    if (record.number <= strip.released || record.number > strip.next)
      return wrong("that it has released what it was not sent");
    strip.released = record.number;
    storeRelease(&strip.sender->released, record.number);
    return {};
  }
  const bool lines = record.what == Record::lines, asks = record.what == Record::asks;
  const uint32_t least = lines ? 0 : asks ? lanes::kDirectBytes : lanes::kLineBytes + 1;
  if (record.length < least || record.length > (lines ? lanes::kLineBytes : lanes::kSlotBytes) ||
      record.number != strip.next || strip.next - releasedOf(*strip.sender) >= lanes::kSlots ||
      (asks && record.strip >= found->second.grants))
    return wrong("a message that is out of turn");
  ++strip.next;
  if (lines) {
    incoming_ = {&strip, record, 0, {}};
    incoming_.bytes.resize(linesFor(record.length) * size_t{8});
  } else {
    slots_.expect({&strip, record.number, record.signature, record.length, asks, asks});
  }
  return {};
}

/// What has come in lines, to a kernel here.
void RelayLink::deliver() {
  const Data& data = incoming_;
  RelayStrip& strip = *std::exchange(incoming_.strip, nullptr);
  lanes::Line* const lines = strip.receiver->lines[data.record.number % lanes::kSlots];
  const uint32_t flag = lanes::flagOf(data.record.number);
  for (uint32_t i = 0; i < linesFor(data.record.length); ++i) {
    uint32_t halves[2];
    std::memcpy(halves, data.bytes.data() + i * size_t{8}, sizeof halves);
    lanes::storeLine(lines + 1 + i, halves[0], halves[1], flag);
  }
  lanes::storeLine(lines, data.record.signature, data.record.length, flag);
}

Result<bool> RelayLink::send(bool ending) {
  bool moved = false;
  if (slots_.hasUnsent()) { ECCL_ASSIGN(moved, slots_.sendAll()); }
  if (outgoing_.strip != nullptr) {
    moved |= sendLines();
    if (outgoing_.strip != nullptr) return moved;
  }
  for (auto& [id, ring] : rings_)
    if (!sends(id)) moved |= tellOf(id, ring);
  for (size_t i = 0; i < senders_.size(); ++i) {
    const auto& [id, ring, number] = senders_[turn_ % senders_.size()];
    if (to_.sendEnd.reserve() == nullptr) return moved;
    ++turn_;
    if (number >= ring->ready || !find(ring->strips[number], number < ring->grants)) continue;
    outgoing_.record.strip = number;
    put(id, outgoing_.record);
    moved = true;
    if (outgoing_.strip != nullptr) sendLines();
    if (outgoing_.strip != nullptr) return moved;
  }
  ECCL_ASSIGN(const bool its, slots_.sendAll());
  moved |= its;
  // Behind all that was released: what was not never will be.
  if (ending && !told_ && hasToldAll())
    moved |= told_ = put({own_, peer_, 0, 0}, {Record::ended, 0, 0, 0, 0, 0, 0});
  return moved;
}

/// Of what kernels here have released.
bool RelayLink::hasToldAll() const {
  return std::ranges::all_of(rings_, [&](const auto& ring) {
    return sends(ring.first) || std::ranges::all_of(ring.second.strips, [](const RelayStrip& strip) {
             return strip.released == releasedOf(*strip.sender);
           });
  });
}

/// The sender of a ring: so many strips are here, or grant messages. `told`: how many it knows of.
bool RelayLink::tell(const RingId& id, Record::What what, size_t strips, uint32_t& told) {
  if (strips <= told || !put(id, {what, 0, 0, static_cast<uint32_t>(strips), 0, 0, 0})) return false;
  told = static_cast<uint32_t>(strips);
  return true;
}

/// The sender of a ring: that it is here, and what kernels have released.
bool RelayLink::tellOf(const RingId& id, Ring& ring) {
  bool moved = tell(id, Record::ready, ring.strips.size(), ring.ready);
  uint32_t grants = ring.grants;
  while (grants < ring.ready && ring.strips[grants].direct) ++grants;
  moved |= tell(id, Record::grants, grants, ring.grants);
  for (uint32_t s = 0; s < ring.strips.size(); ++s) {
    RelayStrip& strip = ring.strips[s];
    const uint64_t released = releasedOf(*strip.sender);
    if (released == strip.released) continue;
    if (!put(id, {Record::released, 0, 0, s, 0, 0, released})) break;
    strip.released = released;
    moved = true;
  }
  return moved;
}

/// A message that a kernel here has sent: all of it is there. Its record, and its data if that is in lines, are
/// to be sent next. `granted`: the receiver grants long ones.
bool RelayLink::find(RelayStrip& strip, bool granted) {
  const uint64_t message = strip.next;
  const uint32_t slot = message % lanes::kSlots;
  Data& data = outgoing_;
  lanes::Header& header = strip.receiver->headers[slot];
  if (loadAcquire(&header.sequence) == message + 1) {
    if (slots_.to().state() != State::ready) return false;
    const bool asks = granted && header.length >= lanes::kDirectBytes;
    data.record = {asks ? Record::asks : Record::slot, 0, 0, 0, header.signature, header.length, message};
    slots_.send({&strip, message, header.signature, header.length, asks, header.reference == lanes::kPlaced});
  } else {
    lanes::Line* const lines = strip.receiver->lines[slot];
    const uint32_t flag = lanes::flagOf(message);
    uint32_t signature = 0, length = 0;
    if (!lanes::loadLine(lines, flag, &signature, &length)) return false;
    const uint32_t count = linesFor(length);
    data.bytes.resize(count * size_t{8});
    for (uint32_t i = 0; i < count; ++i) {
      uint32_t halves[2];
      if (!lanes::loadLine(lines + 1 + i, flag, &halves[0], &halves[1])) return false;
      std::memcpy(data.bytes.data() + i * size_t{8}, halves, sizeof halves);
    }
    data.record = {Record::lines, 0, 0, 0, signature, length, message};
    data.done = 0;
    data.strip = &strip;
  }
  // As a kernel does that has read it.
  if (lanes::cleansAfter(message))
    for (lanes::Line& line : strip.receiver->lines[slot]) lanes::storeLine(&line, 0, 0, 0);
  ++strip.next;
  return true;
}

/// As far as that goes. True: something moved.
bool RelayLink::sendLines() {
  Data& data = outgoing_;
  const uint32_t before = data.done;
  while (data.done < data.record.length) {
    const uint32_t length = std::min(data.record.length - data.done, to_.sendEnd.shape.slotBytes);
    if (!put(data.bytes.data() + data.done, length)) return data.done > before;
    data.done += length;
  }
  data.strip = nullptr;
  return true;
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
