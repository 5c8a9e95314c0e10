// What a block does to the messages of a move: looks whether they and room for them are there, publishes and
// releases, and posts places for those to come.
#pragma once

#include "runtime/cuda/lanes/block_state.h"

namespace eccl::runtime::cuda::lanes {

template <class Block>
class BlockMessages : protected BlockView<Block> {
 protected:
  using View = BlockView<Block>;
  using View::block_, View::boundsOf, View::endCount_, View::failed_, View::s_, View::served_;
  using View::inBuffer, View::inMemory, View::lengthOf, View::makes, View::moveOf, View::operandsOf,
      View::piecesOf;
  using View::thread;
  ECCL_DEVICE BlockMessages(Block& block, BlockState& state) : View(block, state) {}

  /// One operand of the move: finds where it is, and whether its message or room is there.
  ECCL_DEVICE bool look(uint32_t i, const Move& move, const Strip& strip, uint64_t length, uint32_t o) {
    const BlockOperand& operand = operandsOf(i, move)[o];
    const bool source = o < move.sources;
    if (source) s_.work.pre[o] = operand.pre ? s_.call.pre : kernels::Scale{};
    if (operand.end < 0) {
      s_.found[o] = inBuffer(operand);
      if (move.pieces == 1) address(move, o, onlyPiece(i, move, strip, s_.found[o]));
      return true;
    }
    End& end = s_.ends[strip.endsAt + static_cast<uint32_t>(operand.end)];
    const bool ready = source ? lookForMessage(move, operand, end, length, o)
                              : lookForRoom(i, move, strip, operand, end, length, o);
    if (!ready) storeHint(&s_.awaited, end.connection);
    return ready;
  }
  ECCL_DEVICE std::byte* onlyPiece(uint32_t i, const Move& move, const Strip& strip, const Found& found) const {
    return inMemory(found, *piecesOf(i, move), 0, strip.tile, boundsOf(strip.tile, strip.number).begin);
  }
  ECCL_DEVICE void address(const Move& move, uint32_t o, std::byte* at) {
    if (o < move.sources)
      s_.work.source[o] = at;
    else
      s_.work.destination[o - move.sources] = at;
  }

  ECCL_DEVICE bool lookForMessage(const Move& move, const BlockOperand& operand, const End& end,
                                  uint64_t length, uint32_t o) {
    const uint32_t slot = end.next % kSlots;
    Line* const lines = end.receiver->lines[slot];
    uint32_t signature, itsLength;
    if (move.relay || length <= kLineBytes) {
      s_.found[o] = inLines(operand, lines, end.next);
      if (served_ == 1 && !move.relay) return true;  // all threads look at lines of their own
      if (loadLine(lines, flagOf(end.next), &signature, &itsLength)) {
        if (move.relay) s_.length = itsLength;
        return matches(end, signature, itsLength, move.relay ? itsLength : length);
      }
      if (!move.relay) return false;
    }
    Header& header = end.receiver->headers[slot];
    if (acquire(&header.sequence, end.near) != end.next + 1) return false;
    const uint64_t expected = move.relay ? header.length : length;
    if (!matches(end, header.signature, header.length, expected)) return false;
    if (move.relay) {
      if (expected > kSlotBytes) return fail(end, kOtherLength, kSlotBytes, expected);
      s_.length = expected;
    }
    const uint64_t reference = header.reference;
    const Way way = reference == 0 ? Way::slot : reference == kPlaced ? Way::place : Way::reference;
    std::byte* at = end.receiver->slots[slot];
    if (way == Way::reference) {
      at = whereIs(end, reference, expected);
      if (at == nullptr) return fail(end, kOtherMemory, 0, reference);
    }
    s_.found[o] = {at, 0, operand.end, way, operand.pre};
    address(move, o, at);
    return true;
  }
  ECCL_DEVICE static Found inLines(const BlockOperand& operand, Line* lines, uint64_t message) {
    return {reinterpret_cast<std::byte*>(lines), flagOf(message), operand.end, Way::line, operand.pre};
  }

  /// False: a message of another call, which ends this one.
  ECCL_DEVICE bool matches(const End& end, uint32_t signature, uint32_t length, uint64_t expected) {
    if (signature == s_.call.signature && length == expected) [[likely]]
      return true;
    if (signature != s_.call.signature) return fail(end, kOtherSignature, s_.call.signature, signature);
    return fail(end, kOtherLength, expected, length);
  }
  ECCL_DEVICE bool fail(const End& end, Fault fault, uint64_t expected, uint64_t found) {
    const bool before = failed_;
    failed_ = true;
    if (before || !claim(s_.program.failed)) return false;  // of several that differ one is told
    Report& report = *s_.call.report;
    storeHint(&report.connection, end.connection);
    storeHint(&report.expected, expected);
    storeHint(&report.found, found);
    storeRelease(&report.fault, uint32_t{fault});
    return false;
  }

  /// How the other end is told of memory of this rank; 0: it does not reach it.
  ECCL_DEVICE static uint64_t sayWhere(const End& end, const std::byte* at, uint64_t length) {
    const auto address = reinterpret_cast<uint64_t>(at);
    if (end.near) return address;
    const uint64_t blocks = end.shown == nullptr ? 0 : loadRelaxed(&end.shown->ours);
    for (uint64_t b = 0; b < blocks; ++b) {
      const uint64_t block = loadRelaxed(&end.shown->our[b]);
      const uint64_t offset = address - Shown::begin(block), bytes = Shown::bytes(block);
      if (offset < bytes && length <= bytes - offset) return Shown::at(b, offset);
    }
    return 0;
  }
  /// Where memory is that the other end has told of; null: it has shown nothing there.
  ECCL_DEVICE static std::byte* whereIs(const End& end, uint64_t said, uint64_t length) {
    if (end.near || end.relayed) return reinterpret_cast<std::byte*>(said);
    const uint64_t number = (said >> Shown::kOffsetBits) - 1;  // of 0: no block has it
    const uint64_t offset = said & ((uint64_t{1} << Shown::kOffsetBits) - 1);
    if (end.shown == nullptr || number >= Shown::kMost) return nullptr;
    // The mapping was there before the word, and the word before the other end was told that it may say this.
    const uint64_t block = loadRelaxed(&end.shown->their[number]);
    if (offset > Shown::bytes(block) || length > Shown::bytes(block) - offset || block == 0) return nullptr;
    return reinterpret_cast<std::byte*>(Shown::begin(block) + offset);
  }
  ECCL_DEVICE static bool mayTell(const End& end, const Move& move, uint64_t length) {
    return (end.near || end.shown != nullptr) && length >= kDirectBytes && move.pieces == 1;
  }

  ECCL_DEVICE bool lookForRoom(uint32_t i, const Move& move, const Strip& strip, const BlockOperand& operand,
                               End& end, uint64_t length, uint32_t o) {
    if (end.next - end.releasedSeen >= kSlots) {
      end.releasedSeen = acquire(&end.sender->released, end.near);
      if (end.next - end.releasedSeen >= kSlots) return false;
      if (end.relayed && end.slots == nullptr)
        end.slots = reinterpret_cast<std::byte*>(acquire(&end.sender->slotsAt, false));
    }
    const uint32_t slot = end.next % kSlots;
    std::byte* const inSlot = end.receiver->slots[slot];
    Found& found = s_.found[o];
    found = {inSlot, 0, operand.end, Way::slot, false};
    if (move.relay || length <= kLineBytes) {
      found = inLines(operand, end.receiver->lines[slot],
                      end.next);  // of one passed on the length is not known yet
    } else if (end.relayed) {
      if (end.slots != nullptr && length >= kDirectBytes)
        found.way = Way::place, found.at = end.slots + slot * uint64_t{kSlotBytes};
    } else if (mayTell(end, move, length)) {
      const Place& place = end.sender->places[end.next % (2 * kSlots)];
      const BlockOperand& from = *operandsOf(i, move);
      const bool stays = from.stable && from.end < 0 && move.sources == 1 && !copiesScaled(from);
      const uint64_t said = stays ? sayWhere(end, onlyPiece(i, move, strip, inBuffer(from)), length) : 0;
      if (said != 0) {
        found.way = Way::reference;
        found.at = reinterpret_cast<std::byte*>(said);
      } else if ((end.near || loadRelaxed(&end.shown->theirs) > 0) &&
                 acquire(&place.sequence, end.near) == end.next + 1 && place.length == length &&
                 place.signature == s_.call.signature) {
        std::byte* const at = whereIs(end, place.address, length);
        if (at != nullptr) found.way = Way::place, found.at = at;
      }
    }
    address(move, o, found.way == Way::reference ? nullptr : found.way == Way::line ? inSlot : found.at);
    return true;
  }
  ECCL_DEVICE bool copiesScaled(const BlockOperand& from) const {
    return from.pre && s_.call.pre.kind != kernels::Scale::Kind::none;
  }

  /// What the move has done to one of its operands that is a message.
  ECCL_DEVICE void commit(const Found& found, End& end, bool source) {
    const uint64_t message = end.next++;
    Header& header = end.receiver->headers[message % kSlots];
    uint64_t* word = &header.sequence;
    bool ordered = s_.length <= kLineBytes, near = end.near;
    if (source) {
      word = &end.sender->released;
      if (clean(end, message)) ordered = near = false;
    } else if (ordered) {
      return;  // lines say themselves that they have come
    } else {
      header.signature = s_.call.signature;
      header.length = static_cast<uint32_t>(s_.length);
      header.reference = found.way == Way::reference ? reinterpret_cast<uint64_t>(found.at)
                         : found.way == Way::place   ? kPlaced
                                                     : 0;
      if (found.way == Way::reference) end.lastReference = end.next;
    }
    if (!ordered) fence(near);
    releaseOrdered(word, message + 1);
  }
  /// Of a message that has been read, before its sender is told: whether its lines had to be cleaned.
  ECCL_DEVICE bool clean(const End& end, uint64_t message) {
    if (!cleansAfter(message)) return false;
    for (Line& line : end.receiver->lines[message % kSlots]) storeLine(&line, 0, 0, 0);
    return true;
  }

  /// By one thread: tells senders where messages of the coming tiles are wanted.
  ECCL_DEVICE void post(uint32_t i) {
    Strip& strip = s_.strips[i];
    const LanePlan& lane = s_.lanes[i];
    if (!lane.posts) return;
    for (; strip.postTile <= strip.tile + lane.ahead && strip.postTile < s_.program.tiles; ++strip.postTile) {
      for (uint32_t m = 0; m < lane.moves; ++m) {
        const Move& move = moveOf(i, m);
        const uint64_t length = lengthOf(i, move, strip.postTile);
        if (!makes(i, move, strip.postTile, length)) continue;
        const BlockOperand* const operands = operandsOf(i, move);
        for (uint32_t o = 0; o < move.sources; ++o) {
          if (operands[o].end < 0) continue;
          End& end = s_.ends[strip.endsAt + static_cast<uint32_t>(operands[o].end)];
          const uint64_t message = end.considered++;
          if (!mayTell(end, move, length) || move.relay || move.sources != 1 || move.destinations == 0 ||
              move.post || !operands[1].posted)
            continue;
          std::byte* const wanted = inMemory(inBuffer(operands[1]), *piecesOf(i, move), 0, strip.postTile,
                                             boundsOf(strip.postTile, strip.number).begin);
          const uint64_t said = sayWhere(end, wanted, length);
          if (said == 0) continue;
          Place& place = end.sender->places[message % (2 * kSlots)];
          place.length = static_cast<uint32_t>(length);
          place.signature = s_.call.signature;
          place.address = said;
          release(&place.sequence, message + 1, end.near);
        }
      }
    }
  }

  /// Whether receivers are through with what messages refer to, of those ends that this thread asks.
  ECCL_DEVICE bool drained() {
    for (uint32_t e = thread(); e < endCount_; e += block_.threads()) {
      End& end = s_.ends[e];
      if (static_cast<int64_t>(end.lastReference - end.releasedSeen) <= 0) continue;
      end.releasedSeen = acquire(&end.sender->released, end.near);
      if (static_cast<int64_t>(end.lastReference - end.releasedSeen) <= 0) continue;
      storeHint(&s_.awaited, end.connection);
      return false;
    }
    return true;
  }
};

}  // namespace eccl::runtime::cuda::lanes
