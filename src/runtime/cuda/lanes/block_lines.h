// Messages that travel in lines: their data, from memory and lines to memory and lines.
//
// A byte of a piece is always the matter of the same thread, in whichever move and of whichever buffer. So
// threads need no barriers between them for what goes by lines.
#pragma once

#include "runtime/cuda/lanes/block_messages.h"

namespace eccl::runtime::cuda::lanes {

template <class E, class Block>
class BlockLines : protected BlockMessages<Block> {
 protected:
  using Messages = BlockMessages<Block>;
  using Messages::block_, Messages::ended, Messages::endLongWait, Messages::failed_, Messages::inMemory,
      Messages::isLast;
  using Messages::matches, Messages::s_, Messages::shareOf, Messages::thread;
  ECCL_DEVICE BlockLines(Block& block, BlockState& state) : Messages(block, state) {}

  /// Looks of one kind between those at what the host wants; and until a block says what it waits for.
  static constexpr uint32_t kLooks = 256, kLong = Block::kLong;

  /// All of a move, whose messages have `length` bytes. A thread returns when its share is done.
  ECCL_DEVICE void carryByLines(const Move& move, const Found* found, const Piece* pieces, const Strip& strip,
                                const Bounds& bounds, uint64_t length) {
    if (isLast()) carryHeaders(move, found, strip, length);
    uint64_t at = 0;
    const uint32_t number = move.relay ? 1 : move.pieces;
    for (uint32_t p = 0; p < number; ++p) {
      const uint64_t share = move.relay ? length : shareOf(pieces[p], bounds);
      // Lines between pieces are sent, too: who passes a message on without knowing its pieces waits for all.
      const uint64_t padded = number == 1 ? share : (share + 15) / 16 * 16;
      for (uint64_t unit = thread() * 8; unit < padded; unit += uint64_t{block_.threads()} * 8) {
        const auto memory = [&](const Found& its) {
          return inMemory(its, pieces[p], p, strip.tile, bounds.begin) + unit;
        };
        const uint64_t left = unit < share ? share - unit : 0;
        carryUnit(move, found, strip, length, at + unit, left < 8 ? left : 8, memory);
      }
      at += padded;
    }
  }

  /// The header of a message, when it has come. False: the call has failed or was aborted meanwhile.
  ECCL_DEVICE bool awaitHeader(const Found& found, const End& end, uint32_t* length) {
    uint32_t signature = 0;
    return await(end, [&] { return loadLine(linesOf(found), found.flag, &signature, length); }) &&
           matches(end, signature, *length, *length);
  }

  /// Looks until something has come. False: the call has failed or was aborted meanwhile.
  template <class Come>
  ECCL_DEVICE bool await(const End& end, const Come& come) {
    uint32_t looks = 0;
    while (!failed_ && !come()) {
      if (++looks % kLooks != 0) continue;
      failed_ |= ended();
      if (looks % kLong == 0) storeHint(&s_.call.report->awaited, end.connection);
      block_.pause();
    }
    if (looks >= kLong) endLongWait();
    return !failed_;
  }

 private:
  /// By one thread. Of messages without data nobody else looks at the header.
  ECCL_DEVICE void carryHeaders(const Move& move, const Found* found, const Strip& strip, uint64_t length) {
    for (uint32_t o = 0; o < uint32_t{move.sources} + move.destinations; ++o) {
      if (found[o].way != Way::line) continue;
      uint32_t itsLength = 0;
      const End& end = endOf(strip, found[o]);
      if (o >= move.sources)
        storeLine(linesOf(found[o]), s_.call.signature, static_cast<uint32_t>(length), found[o].flag);
      else if (!awaitHeader(found[o], end, &itsLength) || !matches(end, s_.call.signature, itsLength, length))
        return;
    }
  }

  /// Eight bytes, or fewer at the end of a piece, or none behind it: `bytes`, at `inMessage` of messages, and
  /// where memory() says.
  template <class Memory>
  ECCL_DEVICE void carryUnit(const Move& move, const Found* found, const Strip& strip, uint64_t length,
                             uint64_t inMessage, uint64_t bytes, const Memory& memory) {
    constexpr int kElements = 8 / sizeof(E);
    using Unit = Pack<E, kElements>;
    const auto load = [&](const Found& its) {
      if (its.way == Way::line) return std::bit_cast<Unit>(awaitUnit(its, strip, length, inMessage));
      const std::byte* const from = memory(its);
      if (bytes == 8 && reinterpret_cast<uintptr_t>(from) % 8 == 0)
        return std::bit_cast<Unit>(*reinterpret_cast<const uint64_t*>(from));
      Unit unit{};
      ECCL_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e * sizeof(E) < bytes) unit.elements[e] = loadAt<E>(from + e * sizeof(E));
      return unit;
    };
    const auto scaled = [&](const Found& its, const Unit& unit) {
      return Elements<E, kElements>(unit, its.pre ? s_.call.pre : kernels::Scale{});
    };
    const Found first = found[0];
    Unit result = load(first);
    const bool copies =
        move.sources == 1 && !(first.pre && scales(s_.call.pre)) && !(move.post && scales(s_.call.post));
    if (!copies) {
      Elements<E, kElements> sum = scaled(first, result);
      for (uint32_t s = 1; s < move.sources; ++s) {
        const Found its = found[s];
        sum.combine(s_.call.op, scaled(its, load(its)));
      }
      if (move.post) sum.scale(s_.call.post);
      result = sum.delivered();
    }
    if (failed_) return;  // what is there is worth nothing
    const auto word = std::bit_cast<uint64_t>(result);
    for (uint32_t o = move.sources; o < uint32_t{move.sources} + move.destinations; ++o) {
      const Found its = found[o];
      if (its.way == Way::line) {
        storeLine(linesOf(its) + 1 + inMessage / 8, static_cast<uint32_t>(word),
                  static_cast<uint32_t>(word >> 32), its.flag);
        continue;
      }
      std::byte* const to = memory(its);
      if (first.way != Way::line && to == memory(first) && copies) continue;  // as Work::writes()
      if (bytes == 8 && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
        *reinterpret_cast<uint64_t*>(to) = word;
        continue;
      }
      ECCL_UNROLL
      for (int e = 0; e < kElements; ++e)
        if (e * sizeof(E) < bytes) storeAt(to + e * sizeof(E), result.elements[e]);
    }
  }
  ECCL_DEVICE static bool scales(const kernels::Scale& by) { return by.kind != kernels::Scale::Kind::none; }

  ECCL_DEVICE static Line* linesOf(const Found& found) { return reinterpret_cast<Line*>(found.at); }
  ECCL_DEVICE const End& endOf(const Strip& strip, const Found& found) const {
    return s_.ends[strip.endsAt + static_cast<uint32_t>(found.end)];
  }

  /// Eight bytes of a message, when they have come, if it is the one that is expected.
  ECCL_DEVICE uint64_t awaitUnit(const Found& found, const Strip& strip, uint64_t length, uint64_t inMessage) {
    uint32_t low = 0, high = 0, signature = 0, itsLength = 0;
    const auto come = [&] {  // both are on their way at once
      const bool header = loadLine(linesOf(found), found.flag, &signature, &itsLength);
      return loadLine(linesOf(found) + 1 + inMessage / 8, found.flag, &low, &high) && header;
    };
    const End& end = endOf(strip, found);
    if (await(end, come)) matches(end, signature, itsLength, length);
    return uint64_t{high} << 32 | low;
  }
};

}  // namespace eccl::runtime::cuda::lanes
