#include "runtime/cuda/relay_slots.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "program/move_ends.h"

namespace eccl::runtime::cuda {
namespace {

using transport::MemoryFor;

constexpr uint32_t kSlotSignature = 0x736c6f74;  // of all messages
/// So many messages of a connection are taken before others have their turn.
constexpr int kMostAtOnce = 64;

/// Whether long messages are whole at this end, and go without a copy where memory can be reached.
bool takesWhole(const RingEnd& end) {
  return end.shape.slotBytes >= lanes::kSlotBytes && end.directFrom <= lanes::kDirectBytes && end.mine.size > 0;
}

Status isOutOfReach() {
  return Status::error(eccl::Code::internal, "an RDMA device no longer gets at slots of relayed messages");
}
Status isNotOfARelay() {
  return Status::error(eccl::Code::remote, "data that is in no slot of a ring");
}

}  // namespace

RelaySlots::RelaySlots(transport::Connection& to, transport::Connection& from,
                       decltype(ExecutorContext::usesMemory) uses)
    : to_(to), from_(from), uses_(std::move(uses)) {}

std::optional<SlotsPlace> RelaySlots::prepare(RelayStrip& strip, bool sends) {
  RingEnd& end = sends ? static_cast<RingEnd&>(to_.sendEnd) : from_.receiveEnd;
  const transport::Path& path = *(sends ? to_ : from_).path();
  // Messages that are passed on, and those before slots apart are there, go from the ring.
  if (sends && known_.insert(strip.memory.base).second) uses_(strip.memory, MemoryFor::sending, -1);
  if (!std::exchange(strip.asked, true) && path.grants() && takesWhole(end)) return SlotsPlace::gpu;
  if (strip.apart == nullptr) return std::nullopt;
  SlotsApart& apart = *strip.apart;
  if (!std::exchange(apart.told, true))
    apart.known = uses_(apart.memory, sends ? MemoryFor::sending : MemoryFor::receiving, apart.dmabuf.get());
  apart.dmabuf.reset();
  strip.direct = end.mine.holds(end.mine.offsetOf(strip.slots), uint64_t{lanes::kSlots} * lanes::kSlotBytes);
  if (strip.direct && sends) storeRelease(&strip.sender->slotsAt, strip.slotsAt);
  if (strip.direct) return std::nullopt;
  return strip.place == SlotsPlace::gpu && !sends ? SlotsPlace::pinned : SlotsPlace::nowhere;
}

Result<bool> RelaySlots::sendAll() {
  bool moved = false;
  Status failure;
  for (; !outgoing_.empty() && failure.ok(); outgoing_.pop_front()) {
    const uint32_t before = outgoing_.front().done;
    const bool all = sendOne(outgoing_.front(), &failure);
    moved |= outgoing_.front().done > before;
    if (!all) break;
  }
  if (!failure.ok()) return failure;
  if (moved) to_.path()->kick();
  return moved;
}

/// As far as that goes. True: it has been sent.
bool RelaySlots::sendOne(Message& its, Status* failure) {
  SendEnd& end = to_.sendEnd;
  std::byte* const data =
      its.apart ? slotOf(its.strip->slots, its.number) : its.strip->receiver->slots[its.number % lanes::kSlots];
  while (its.done < its.length) {
    const uint32_t length = std::min(its.length - its.done, end.shape.slotBytes);
    if ((its.granted && to_.path()->awaitsGrant(end.coming())) || end.reserve(length) == nullptr) return false;
    uint64_t offset = 0;
    if (end.reaches(data + its.done, length, &offset)) {
      Slot* const slot = end.slot(end.coming());
      slot->offset = offset;
      slot->sent.done = 0;
      end.publish(length, kSlotGet | kSlotLast, kSlotSignature);
    } else if (its.apart) {
      *failure = isOutOfReach();
      return false;
    } else {
      std::memcpy(end.place(length), data + its.done, length);
      end.publish(length, kSlotLast, kSlotSignature);
    }
    its.done += length;
  }
  return true;
}

/// Grants messages that are to come to slots apart, as soon as it is known which of the connection they are.
/// Their sender waits for that.
Status RelaySlots::offer() {
  ReceiveEnd& end = from_.receiveEnd;
  bool any = false;
  for (; considered_ < coming_.size(); ++considered_) {
    const Message& its = coming_[considered_];
    const uint64_t first = end.first + consideredTo_;
    if (!end.mayOffer(first)) break;
    if (its.granted) {
      end.offer(first, slotOf(its.strip->slots, its.number), its.length);
      if (end.offerFor(first).length != its.length) return isOutOfReach();
    }
    any |= its.granted;
    consideredTo_ += (its.length + end.shape.slotBytes - 1) / end.shape.slotBytes;
  }
  if (any) from_.path()->kick();
  return {};
}

Result<bool> RelaySlots::receiveAll() {
  ReceiveEnd& end = from_.receiveEnd;
  ECCL_TRY(offer());
  int taken = 0;
  for (Received message; taken < kMostAtOnce && considered_ > 0 && end.peek(message); ++taken) {
    Message& its = coming_.front();
    const uint32_t left = its.length - its.done;
    if (interpreter::faultOf(end, message, kSlotSignature, std::min(left, end.shape.slotBytes), true) !=
            LaneFault::none ||
        end.isInProcess(message))
      return isNotOfARelay();
    const bool placed = (message.flags & kSlotPut) != 0;
    if (placed && (!its.granted || message.length != its.length)) return isNotOfARelay();
    if (!placed) {
      std::byte* const slot = its.strip->receiver->slots[its.number % lanes::kSlots];
      const bool reads = (message.flags & kSlotGet) != 0;
      if (reads && !end.beginReading()) break;  // it has failed, as everybody is about to hear
      std::memcpy(slot + its.done, interpreter::dataOf(end, message, 0, nullptr), message.length);
      if (reads && !end.endReading()) break;
    }
    end.release();
    its.done += message.length;
    if (its.done < its.length) continue;
    deliver(its, placed);
    coming_.pop_front();
    --considered_;
  }
  if (taken > 0) {
    ECCL_TRY(offer());
    owes_ = true;
    from_.path()->kick();
  } else if (std::exchange(owes_, false)) {
    from_.path()->settle();
  }
  return taken > 0;
}

/// To a kernel here.
void RelaySlots::deliver(const Message& its, bool placed) {
  const uint64_t slot = its.number % lanes::kSlots;
  lanes::Header& header = its.strip->receiver->headers[slot];
  header.signature = its.signature;
  header.length = its.length;
  header.reference = placed ? its.strip->slotsAt + slot * lanes::kSlotBytes : 0;
  storeRelease(&header.sequence, its.number + 1);
}

}  // namespace eccl::runtime::cuda
