// A block at work: serves strips of lanes, as block_program.h says.
//
// All threads go through the same moves. Those with small numbers look at the operands of the present move, one
// each. What they find is in shared memory; barriers are between. A strip that cannot go on is left for the
// next one that the block serves, so blocks may be fewer than strips.
#pragma once

#include "runtime/cuda/lanes/block_carry.h"

namespace eccl::runtime::cuda::lanes {

/// Elements of type E. For a call that only copies any will do.
template <class E, class Block>
class LaneBlock : BlockCarry<E, Block> {
  using Carry = BlockCarry<E, Block>;
  using Carry::abort_, Carry::block_, Carry::failed_, Carry::s_, Carry::served_;
  using Carry::carry, Carry::carryByLines, Carry::commit, Carry::copyPlan, Carry::drained, Carry::endCount_,
      Carry::ended;
  using Carry::kLong, Carry::kLooks, Carry::lengthOf, Carry::look, Carry::makes, Carry::moveOf, Carry::post,
      Carry::thread;

 public:
  ECCL_DEVICE LaneBlock(Block& block, BlockState& state) : Carry(block, state) {}

  /// Makes the share of block `index` of a call.
  ECCL_DEVICE void run(const Call& call, uint32_t index) {
    if (thread() == 0) {
      s_.call = call;
      s_.program = *call.program;
      s_.awaited = -1;
    }
    block_.sync();
    abort_ = &call.abort[(call.firstBlock + index) % kAbortLines].word;
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
    while (!stopped_ && !block_.all(drained())) {
      if (!goesOn(false, idle)) break;
    }
    end();
  }

 private:
  ECCL_DEVICE void begin(uint32_t index) {
    const BlockProgram& program = s_.program;
    const uint32_t strips = program.lanes * program.width, first = index * program.served;
    // A kernel that begins after an abort touches nothing. What takes a microsecond goes on beside the rest.
    const bool aborted = thread() == block_.threads() - 1 && loadRelaxed(abort_) != 0;
    uint32_t ends = 0;
    for (served_ = 0; served_ < program.served && first + served_ < strips; ++served_) {
      const uint32_t itsLane = (first + served_) % program.lanes, number = (first + served_) / program.lanes;
      const LanePlan& lane = program.lane[itsLane];
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
        const EndOf& from = program.ends[lane.firstEnd + e];
        End& end = s_.ends[ends + e];
        end = from.strips[number];
        end.connection = from.connection;
        end.considered = end.next;
      }
      ends += lane.ends;
    }
    endCount_ = ends;
    copyPlan(first % program.lanes);
    stopped_ = block_.any(aborted);
    if (stopped_) return;
    if (thread() == 0) {
      if (s_.call.scalar != nullptr) s_.call.pre = scaleAt<E>(s_.call.scalar);
      for (uint32_t i = 0; i < served_; ++i) post(i);
    }
    block_.sync();
  }

  /// One move of a strip. False: it cannot be made now.
  ECCL_DEVICE bool advance(uint32_t i) {
    const Strip strip = s_.strips[i];
    const Move& move = moveOf(i, strip.move);
    const uint64_t length = lengthOf(i, move, strip.tile);
    if (!makes(i, move, strip.tile, length)) {
      block_.sync();
      if (thread() == 0) next(i);
      block_.sync();
      return true;
    }
    const uint32_t operands = move.sources + move.destinations;
    bool ready = true;
    for (uint32_t o = thread(); o <= operands; o += block_.threads())
      ready &= o < operands ? look(i, move, strip, length, o) : prepare(move, strip, length);
    if (!block_.all(ready)) return false;
    if (s_.length <= kLineBytes)
      carryByLines(i, move, strip);
    else
      carry(i, move, strip);
    if (block_.any(failed_)) {
      stopped_ = true;
      return false;
    }
    // What next() writes commit() does not look at.
    for (uint32_t o = thread(); o < operands; o += block_.threads()) commit(i, move, strip, o);
    if (thread() == 0) next(i);
    block_.sync();
    return true;
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
    const uint64_t moves = program.lane[move.waitLane].moves;
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
    if (!strip.finished) post(i);
  }

  /// After each round. False: the call has failed or was aborted.
  ECCL_DEVICE bool goesOn(bool moved, uint32_t& idle) {
    if (moved) {
      if (idle >= kLong && thread() == 0) storeHint(&s_.call.report->awaited, int32_t{-1});
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
    for (uint32_t i = 0; i < served_; ++i) {
      const Strip& strip = s_.strips[i];
      for (uint32_t e = thread(); e < s_.lanes[i].ends; e += block_.threads())
        program.ends[s_.lanes[i].firstEnd + e].strips[strip.number] = s_.ends[strip.endsAt + e];
      // Others look at it while the call goes on, if it is awaited; then it is there already.
      if (thread() == 0 && !s_.lanes[i].awaited)
        program.done[strip.lane * program.width + strip.number] = strip.made;
    }
    block_.sync();  // the host may use the memory again then: no test sees that
    if (thread() != 0) return;
    if (stopped_ && loadRelaxed(program.failed) == 0) storeHint(&s_.call.report->fault, uint32_t{kAborted});
    const uint64_t ended = addOne(program.ended) + 1;
    if (ended % s_.call.blocks != 0) return;
    storeHint(program.failed, uint32_t{0});
    storeHint(&s_.call.report->awaited, int32_t{-1});
    storeRelease(&s_.call.report->over, ended / s_.call.blocks);
  }

  static constexpr uint32_t kTilesPerReport = 256;

  bool stopped_ = false;  // as all threads know
};

/// What block number `index` of a kernel does.
template <class E, class Block>
ECCL_DEVICE inline void runBlock(Block& block, BlockState& state, const Calls& calls, uint32_t index) {
  uint32_t c = 0;
  while (c + 1 < calls.count && index >= calls.call[c + 1].firstBlock) ++c;
  LaneBlock<E, Block>(block, state).run(calls.call[c], index - calls.call[c].firstBlock);
}

}  // namespace eccl::runtime::cuda::lanes
