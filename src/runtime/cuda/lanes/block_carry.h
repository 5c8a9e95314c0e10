// The data of a move: from memory, slots and lines to memory, slots and lines, by all threads of a block.
#pragma once

#include "runtime/cuda/lanes/block_messages.h"

namespace eccl::runtime::cuda::lanes {

template <class E, class Block>
class BlockCarry : protected BlockMessages<Block> {
 protected:
  using Messages = BlockMessages<Block>;
  using Messages::address, Messages::bufferOf, Messages::failed_, Messages::inMemory, Messages::matches;
  using Messages::block_, Messages::ended;
  using Messages::operandsOf, Messages::piecesOf, Messages::s_, Messages::shareOf, Messages::thread;
  ECCL_DEVICE BlockCarry(Block& block, BlockState& state) : Messages(block, state) {}

  /// Looks of one kind between those at what the host wants; and until a block says what it waits for.
  static constexpr uint32_t kLooks = 256, kLong = Block::kLong;

  /// The data of a move whose messages are in slots, or where memory is.
  ECCL_DEVICE void carry(uint32_t i, const Move& move, const Strip& strip) {
    const uint32_t operands = move.sources + move.destinations;
    // What its sender has put in its place is there.
    const bool placed = move.sources == 1 && s_.way[0] == Way::place;
    if (move.relay || move.pieces == 1) {
      if (placed) {
        if (thread() == 0) {
          s_.work.source[0] = s_.work.destination[0];
          s_.work.destination[0] = nullptr;
        }
        block_.sync();
      }
      bool any = false;
      for (uint32_t d = 0; d < move.destinations; ++d) any |= s_.work.writes(d);
      if (any) combineAll<E>(block_, s_.work, s_.length);
      return;
    }
    uint64_t at = 0;
    for (uint32_t p = 0; p < move.pieces; ++p) {
      uint64_t begin;
      const Piece& piece = piecesOf(i, move)[p];
      const uint64_t share = shareOf(piece, strip.tile, strip.number, &begin);
      for (uint32_t o = thread(); o < operands; o += block_.threads()) {
        const BlockOperand& operand = operandsOf(i, move)[o];
        address(move, o,
                operand.end < 0 ? inMemory(operand, s_.base[o], piece, p, strip.tile, begin) : s_.base[o] + at);
      }
      block_.sync();
      combineAll<E>(block_, s_.work, share);
      block_.sync();
      at += (share + 15) / 16 * 16;
    }
  }

  /// The data of a move whose messages are lines.
  ECCL_DEVICE void carryByLines(uint32_t i, const Move& move, const Strip& strip) {
    const uint32_t last = block_.threads() - 1;
    if (thread() == last) {
      const BlockOperand* const operands = operandsOf(i, move);
      for (uint32_t o = 0; o < uint32_t{move.sources} + move.destinations; ++o) {
        if (s_.way[o] != Way::line && s_.way[o] != Way::slot) continue;
        if (operands[o].end < 0) continue;
        const End& end = s_.ends[strip.endsAt + static_cast<uint32_t>(operands[o].end)];
        Line* const line = end.receiver->lines[end.next % kSlots];
        uint32_t signature = s_.call.signature, length = static_cast<uint32_t>(s_.length);
        if (o >= move.sources)
          storeLine(line, signature, length, flagOf(end.next));
        else if (await(end, 0, &signature, &length))
          matches(end, signature, length, s_.length);
      }
    }
    uint64_t at = 0;
    const uint32_t pieces = move.relay ? 1 : move.pieces;
    for (uint32_t p = 0; p < pieces; ++p) {
      uint64_t begin = 0, share = s_.length;
      if (!move.relay) share = shareOf(piecesOf(i, move)[p], strip.tile, strip.number, &begin);
      for (uint64_t unit = thread() * 8; unit < share; unit += uint64_t{block_.threads()} * 8)
        carryUnit(i, move, strip, p, begin, at + unit, unit, share - unit < 8 ? share - unit : 8);
      at += move.pieces == 1 ? share : (share + 15) / 16 * 16;
    }
  }

  /// Eight bytes, or fewer at the end of a piece: `bytes` at `inPiece` of the share, at `inMessage` of
  /// messages.
  ECCL_DEVICE void carryUnit(uint32_t i, const Move& move, const Strip& strip, uint32_t p, uint64_t begin,
                             uint64_t inMessage, uint64_t inPiece, uint64_t bytes) {
    constexpr int kElements = 8 / sizeof(E);
    using Unit = Pack<E, kElements>;
    const BlockOperand* const operands = operandsOf(i, move);
    const auto memory = [&](uint32_t o) {
      return inMemory(operands[o], s_.base[o], piecesOf(i, move)[p], p, strip.tile, begin) + inPiece;
    };
    const auto endOf = [&](uint32_t o) -> const End& {
      return s_.ends[strip.endsAt + static_cast<uint32_t>(operands[o].end)];
    };
    const auto load = [&](uint32_t o) {
      if (operands[o].end >= 0) {
        const End& end = endOf(o);
        uint32_t low = 0, high = 0;
        await(end, 1 + inMessage / 8, &low, &high);
        return std::bit_cast<Unit>(uint64_t{high} << 32 | low);
      }
      const std::byte* const from = memory(o);
      if (bytes == 8 && reinterpret_cast<uintptr_t>(from) % 8 == 0)
        return std::bit_cast<Unit>(*reinterpret_cast<const uint64_t*>(from));
      Unit unit{};
      ECCL_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e * sizeof(E) < bytes) unit.elements[e] = loadAt<E>(from + e * sizeof(E));
      return unit;
    };
    Unit result = load(0);
    if (!s_.work.copies()) {
      Elements<E, kElements> sum(result, s_.work.pre[0]);
      for (uint32_t s = 1; s < move.sources; ++s) sum.combine(s_.work.op, {load(s), s_.work.pre[s]});
      sum.scale(s_.work.post);
      result = sum.delivered();
    }
    const auto word = std::bit_cast<uint64_t>(result);
    if (failed_) return;  // what is there is worth nothing
    for (uint32_t o = move.sources; o < uint32_t{move.sources} + move.destinations; ++o) {
      if (operands[o].end >= 0) {
        const End& end = endOf(o);
        storeLine(end.receiver->lines[end.next % kSlots] + 1 + inMessage / 8, static_cast<uint32_t>(word),
                  static_cast<uint32_t>(word >> 32), flagOf(end.next));
        continue;
      }
      std::byte* const to = memory(o);
      if (operands[0].end < 0 && to == memory(0) && s_.work.copies()) continue;  // as Work::writes()
      if (bytes == 8 && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
        *reinterpret_cast<uint64_t*>(to) = word;
        continue;
      }
      ECCL_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e * sizeof(E) < bytes) storeAt(to + e * sizeof(E), result.elements[e]);
    }
  }

  /// Looks at a line of the coming message until it has come. False: the call has failed or was aborted
  /// meanwhile.
  ECCL_DEVICE bool await(const End& end, uint64_t number, uint32_t* low, uint32_t* high) {
    const Line* const line = end.receiver->lines[end.next % kSlots] + number;
    uint32_t looks = 0;
    while (!failed_ && !loadLine(line, flagOf(end.next), low, high)) {
      if (++looks % kLooks != 0) continue;
      failed_ |= ended();
      if (looks % kLong == 0) storeHint(&s_.call.report->awaited, end.connection);
      block_.pause();
    }
    if (looks >= kLong) storeHint(&s_.call.report->awaited, int32_t{-1});
    return !failed_;
  }
};

}  // namespace eccl::runtime::cuda::lanes
