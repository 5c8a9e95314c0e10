// A block at work on a strip of a short program: one whose messages are all lines, in one tile. What its
// operands are is found once, each by a warp of its own. Then each thread makes all moves of the strip's lane
// one after the other, for the bytes that are its matter, without barriers. Rings and messages are those of
// run_block.h, so what another rank's block is does not matter.
#pragma once

#include "runtime/cuda/lanes/block_lines.h"

namespace eccl::runtime::cuda::lanes {

template <class E, class Block>
class ShortBlock : BlockLines<E, Block> {
  using Lines = BlockLines<E, Block>;
  using Lines::aborted, Lines::await, Lines::awaitHeader, Lines::block_, Lines::boundsOf, Lines::carryByLines;
  using Lines::clean, Lines::close, Lines::failed_, Lines::forEach, Lines::inBuffer, Lines::inLines,
      Lines::isLast;
  using Lines::lengthOf, Lines::open, Lines::s_, Lines::thread;

 public:
  ECCL_DEVICE ShortBlock(Block& block, BlockState& state) : Lines(block, state) {}

  /// Makes the share of block `index` of a call.
  ECCL_DEVICE void run(const Call& call, uint32_t index) {
    open(call, index);
    for (; index >= s_.program.lanes; index -= s_.program.lanes) ++strip_.number;  // most often 0: no division
    bounds_ = boundsOf(0, strip_.number);
    const LanePlan& lane = this->template kept<LanePlan>(s_.program.laneList)[index];
    const EndOf* const ends = this->template kept<EndOf>(s_.program.endList) + lane.firstEnd;
    const BlockOperand* const operands =
        this->template kept<BlockOperand>(s_.program.operandList) + lane.firstOperand;
    const Move* const moves = this->template kept<Move>(s_.program.moveList) + lane.firstMove;
    const Piece* const pieces = this->template kept<Piece>(s_.program.pieceList) + lane.firstPiece;
    // Behind the program and its lists.
    auto* const found = reinterpret_cast<Found*>(reinterpret_cast<std::byte*>(&s_.program) + call.programBytes);
    forEach(lane.ends, [&](uint32_t e) { look(ends[e], s_.ends[e]); });
    block_.sync();
    forEach(lane.operands, [&](uint32_t o) { found[o] = find(ends, operands[o]); });
    bool stopped = aborted();
    if (!stopped && s_.call.scalar != nullptr) {
      if (thread() == 0) s_.call.pre = scaleAt<E>(s_.call.scalar);
      block_.sync();
    }
    if (!stopped && (thread() * 8 < lane.longest || isLast()))
      for (uint32_t m = 0; m < lane.moves && !failed_; ++m) make(moves[m], found, pieces);
    stopped = block_.any(stopped || failed_);
    if (!stopped) forEach(lane.ends, [&](uint32_t e) { commit(ends[e], s_.ends[e]); });
    block_.sync();  // the host may use the memory again then: no test sees that
    close(stopped);
  }

 private:
  ECCL_DEVICE void look(const EndOf& from, End& end) const {
    end = from.strips[strip_.number];
    end.connection = from.connection;
    if (from.receives) return;
    // 0 until the first message is released. It lies with this rank, and stays while a call may come.
    const uint64_t released = acquireOrdered(&end.sender->released);
    if (released > end.releasedSeen) end.releasedSeen = released;
  }

  /// What an operand is. If it is a message to be sent there is room for it: that waits for earlier calls
  /// alone.
  ECCL_DEVICE Found find(const EndOf* ends, const BlockOperand& operand) {
    if (operand.end < 0) return inBuffer(operand);
    const auto e = static_cast<uint32_t>(operand.end);
    const End& end = s_.ends[e];
    const uint64_t message = end.next + operand.ordinal;
    if (!ends[e].receives) {
      if (message - end.releasedSeen >= kSlots)
        await(end, [&] { return message - acquireOrdered(&end.sender->released) < kSlots; });
      if (cleansAfter(message - kSlots)) fence(false);  // what others store comes after the receiver's zeros
    }
    return inLines(operand, end.receiver->lines[message % kSlots], message);
  }

  ECCL_DEVICE void make(const Move& move, const Found* found, const Piece* pieces) {
    found += move.firstOperand;
    pieces += move.firstPiece;
    uint32_t length = strip_.number == 0 ? move.length : static_cast<uint32_t>(lengthOf(move, pieces, bounds_));
    if (move.relay && !awaitHeader(*found, s_.ends[static_cast<uint32_t>(found->end)], &length)) return;
    carryByLines(move, found, pieces, strip_, bounds_, length);
  }

  /// What the call has done to an end: all have read what came.
  ECCL_DEVICE void commit(const EndOf& of, const End& end) {
    const uint64_t next = end.next + of.messages;
    of.strips[strip_.number].next = next;
    if (!of.receives || next == end.next) return;
    bool cleaned = false;
    for (uint64_t message = end.next; message < next; ++message) cleaned |= clean(end, message);
    if (cleaned) fence(false);
    releaseOrdered(&end.sender->released, next);
  }

  Strip strip_{};
  Bounds bounds_{};
};

}  // namespace eccl::runtime::cuda::lanes
