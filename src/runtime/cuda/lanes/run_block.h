// A block at work: serves strips of lanes, as block_program.h says.
//
// All threads go through the same moves. Those with small numbers look at the operands of the present move, one
// each. What they find is in shared memory; barriers are between. A strip that cannot go on is left for the
// next one that the block serves, so blocks may be fewer than strips.
#pragma once

#include "runtime/cuda/lanes/block_carry.h"
#include "runtime/cuda/lanes/short_block.h"

namespace eccl::runtime::cuda::lanes {

/// Elements of type E. For a call that only copies any will do.
template <class E, class Block>
class LaneBlock : BlockCarry<E, Block> {
  using Carry = BlockCarry<E, Block>;
  using Carry::aborted, Carry::block_, Carry::boundsOf, Carry::close, Carry::copyLane, Carry::endCount_,
      Carry::ended;
  using Carry::carry, Carry::carryByLines, Carry::commit, Carry::drained, Carry::endLongWait, Carry::ends_,
      Carry::failed_, Carry::findLists, Carry::forEach;
  using Carry::kept_, Carry::kLong, Carry::kLooks, Carry::lanes_, Carry::lengthOf, Carry::look, Carry::makes;
  using Carry::moveOf, Carry::open, Carry::piecesOf, Carry::post, Carry::s_, Carry::served_, Carry::thread;

 public:
  ECCL_DEVICE LaneBlock(Block& block, BlockState& state) : Carry(block, state) {}

  /// Makes the share of block `index` of a call.
  ECCL_DEVICE void run(const Call& call, uint32_t index) {
    open(call, index);
    findLists();
    begin(index);
    uint32_t idle = 0;
    for (uint32_t finished = 0; !stopped_ && finished < served_;) {
      bool moved = false;
      finished = 0;
      for (uint32_t i = 0; i < served_; ++i) {
        if (s_.strips[i].finished)
          ++finished;
        else
          moved |= advance(i);
        if (stopped_) break;
      }
      if (stopped_ || !goesOn(moved || finished == served_, idle)) break;
    }
    while (!stopped_ && !block_.all(drained()) && goesOn(false, idle)) {}
    if (idle >= kLong && thread() == 0) endLongWait();
    end();
  }

 private:
  ECCL_DEVICE void begin(uint32_t index) {
    const BlockProgram& program = s_.program;
    const uint32_t strips = program.lanes * program.width, first = index * program.served;
    uint32_t ends = 0;
    for (served_ = 0; served_ < program.served && first + served_ < strips; ++served_) {
      const uint32_t itsLane = (first + served_) % program.lanes, number = (first + served_) / program.lanes;
      const LanePlan& lane = lanes_[itsLane];
      if (thread() == 0) {
        Strip& strip = s_.strips[served_];
        s_.lanes[served_] = lane;
        strip = {};
        strip.lane = itsLane;
        strip.number = number;
        strip.endsAt = ends;
        strip.made = program.done[itsLane * program.width + number];
        strip.callsBefore =
            lane.moves > 0 && program.tiles > 0 ? strip.made / (uint64_t{lane.moves} * program.tiles) : 0;
        strip.finished = lane.moves == 0 || program.tiles == 0;
      }
      for (uint32_t e = thread(); e < lane.ends; e += block_.threads()) {
        const EndOf& from = ends_[lane.firstEnd + e];
        End& end = s_.ends[ends + e];
        end = from.strips[number];
        end.connection = from.connection;
        if (from.receives) end.considered = end.next;
      }
      ends += lane.ends;
    }
    endCount_ = ends;
    if (!kept_ && served_ == 1) copyLane(lanes_[first % program.lanes]);
    stopped_ = aborted();
    if (stopped_) return;
    if (s_.call.scalar == nullptr) return;
    if (thread() == 0) s_.call.pre = scaleAt<E>(s_.call.scalar);
    block_.sync();
  }

  /// One move of a strip. False: it cannot be made now.
  ECCL_DEVICE bool advance(uint32_t i) {
    if (!block_.all(lookAt(i))) return false;
    if (!s_.empty && !make(i)) return false;
    if (thread() == 0) next(i);
    block_.sync();
    return true;
  }

  /// What is not empty. False: the call has failed.
  ECCL_DEVICE bool make(uint32_t i) {
    const Strip& strip = s_.strips[i];
    const Move& move = moveOf(i, strip.move);
    if (s_.length <= kLineBytes)
      carryByLines(move, s_.found, piecesOf(i, move), strip, boundsOf(strip.tile, strip.number), s_.length);
    else
      carry(i, move, strip);
    if (block_.any(failed_)) {
      stopped_ = true;
      return false;
    }
    // What next() writes is not looked at any more.
    const uint32_t sources = move.sources;
    forEach(sources + move.destinations, [&](uint32_t o) {
      const Found& found = s_.found[o];
      if (found.end >= 0) commit(found, s_.ends[strip.endsAt + static_cast<uint32_t>(found.end)], o < sources);
    });
    return true;
  }

  /// Finds what the operands of a move are. False: it cannot be made now.
  ECCL_DEVICE bool lookAt(uint32_t i) {
    if (thread() % Block::kWarp != 0) return true;
    const Strip& strip = s_.strips[i];
    const Move& move = moveOf(i, strip.move);
    const uint64_t length = lengthOf(i, move, strip.tile);
    const bool empty = !makes(i, move, strip.tile, length);
    if (thread() == 0) s_.empty = empty;
    if (empty) return true;
    const uint32_t operands = move.sources + move.destinations;
    bool ready = true;
    forEach(operands + 2, [&](uint32_t o) {
      if (o < operands)
        ready &= look(i, move, strip, length, o);
      else if (o == operands)
        ready &= prepare(move, strip, length);
      else
        post(i);
    });
    return ready;
  }

  /// What all operands have in common. False: it is another lane's turn.
  ECCL_DEVICE bool prepare(const Move& move, const Strip& strip, uint64_t length) {
    s_.work.sources = move.sources;
    s_.work.destinations = move.destinations;
    s_.work.post = move.post ? s_.call.post : kernels::Scale{};
    s_.work.op = s_.call.op;
    if (!move.relay) s_.length = length;
    return move.waitLane < 0 || othersTurnOver(move, strip);
  }

  /// The move of another lane has been made that this one waits for.
  ECCL_DEVICE bool othersTurnOver(const Move& move, const Strip& strip) const {
    if (move.waitPrevious && strip.tile == 0) return true;
    const BlockProgram& program = s_.program;
    const uint32_t tile = move.waitPrevious ? strip.tile - 1 : strip.tile;
    const uint64_t moves = lanes_[move.waitLane].moves;
    return acquire(program.done + static_cast<uint32_t>(move.waitLane) * program.width + strip.number, true) >=
           strip.callsBefore * program.tiles * moves + tile * moves + move.waitMoves;
  }

  /// By one thread: goes on to the next move.
  ECCL_DEVICE void next(uint32_t i) {
    Strip& strip = s_.strips[i];
    const LanePlan& lane = s_.lanes[i];
    ++strip.made;
    if (lane.awaited) release(s_.program.done + strip.lane * s_.program.width + strip.number, strip.made, true);
    if (++strip.move < lane.moves) return;
    strip.move = 0;
    strip.finished = ++strip.tile == s_.program.tiles;
    // Rarely: all that is published afterwards waits until the host has it.
    if (strip.tile % kTilesPerReport == 0) storeHint(&s_.call.report->progress, strip.made);
  }

  /// After each round. False: the call has failed or was aborted.
  ECCL_DEVICE bool goesOn(bool moved, uint32_t& idle) {
    if (moved) {
      if (idle >= kLong && thread() == 0) endLongWait();
      idle = 0;
      return true;
    }
    block_.pause();
    if (++idle % kLooks != 0) return true;
    if (idle % kLong == 0 && thread() == 0) storeHint(&s_.call.report->awaited, loadRelaxed(&s_.awaited));
    if (thread() == 0) failed_ |= ended();
    stopped_ = block_.any(failed_);
    return !stopped_;
  }

  /// All threads have come from one of the block's votes.
  ECCL_DEVICE void end() {
    const BlockProgram& program = s_.program;
    if (stopped_) takePlacesBack();
    for (uint32_t i = 0; i < served_; ++i) {
      const Strip& strip = s_.strips[i];
      for (uint32_t e = thread(); e < s_.lanes[i].ends; e += block_.threads())
        ends_[s_.lanes[i].firstEnd + e].strips[strip.number] = s_.ends[strip.endsAt + e];
      // Others look at it while the call goes on, if it is awaited; then it is there already.
      if (thread() == 0 && !s_.lanes[i].awaited)
        program.done[strip.lane * program.width + strip.number] = strip.made;
    }
    block_.sync();  // the host may use the memory again then: no test sees that
    close(stopped_);
  }

  /// Of a call that ends before its time: kernels of another process that have not begun to write to a place of
  /// it will not, though they may hear of the end later.
  ECCL_DEVICE void takePlacesBack() {
    for (uint32_t e = thread(); e < endCount_; e += block_.threads()) {
      const End& end = s_.ends[e];
      if (end.shown == nullptr) continue;
      for (Place& place : end.sender->places) storeHint(&place.sequence, uint64_t{0});
    }
    fence(false);
  }

  static constexpr uint32_t kTilesPerReport = 256;

  bool stopped_ = false;  // as all threads know
};

/// What block number `index` of a kernel does.
template <class E, class Block>
ECCL_DEVICE inline void runBlock(Block& block, BlockState& state, const Calls& calls, uint32_t index) {
  uint32_t c = 0;
  while (c + 1 < calls.count && index >= calls.call[c + 1].firstBlock) ++c;
  const Call& call = calls.call[c];
  if (call.isShort)
    ShortBlock<E, Block>(block, state).run(call, index - call.firstBlock);
  else
    LaneBlock<E, Block>(block, state).run(call, index - call.firstBlock);
}

}  // namespace eccl::runtime::cuda::lanes
