// What a block has in its shared memory, and where things are: moves, operands, and the strip's share of them.
#pragma once

#include "runtime/cuda/lanes/combine.h"

namespace eccl::runtime::cuda::lanes {

/// Where a strip is.
struct Strip {
  uint32_t lane, number, endsAt;
  uint32_t tile, move, postTile;
  uint64_t made, callsBefore;
  bool finished;
};

/// What a strip has of a tile, in bytes of each part.
struct Bounds {
  uint64_t begin, end;
};

/// How an operand of a move is passed.
enum class Way : uint8_t { memory, scratch, line, slot, reference, place };

/// An operand of a move, as a block has found it.
struct alignas(16) Found {
  std::byte* at;  // in memory: where its block begins, without its piece; else the message, or its lines
  uint32_t flag;  // of lines
  int16_t end;    // of the lane; -1: memory
  Way way;
  bool pre;  // as BlockOperand's
};
static_assert(sizeof(Found) == sizeof(BlockOperand));

/// The shared memory of a block.
struct BlockState {
  Call call;
  Strip strips[kMaxServed];
  LanePlan lanes[kMaxServed];
  End ends[kMaxEnds];
  Work work;
  Found found[2 * kMaxOperands];
  uint64_t length;  // of the messages
  bool empty;       // the move has nothing to do
  int32_t awaited;
  // As they lie in memory. Of lists that are longer there are the moves, operands and pieces of one lane.
  alignas(16) BlockProgram program;
  std::byte lists[kListBytes];
};

/// What one thread of a block knows. `Block`: thread(), threads(); sync(), a barrier; all(bool) and any(bool),
/// barriers that tell; pause(); kLong, looks that are worth telling the host; kWarp, neighbours that wait for
/// each other where they do different things.
template <class Block>
class BlockView {
 protected:
  ECCL_DEVICE BlockView(Block& block, BlockState& state) : block_(block), s_(state) {}
  ECCL_DEVICE uint32_t thread() const { return block_.thread(); }
  ECCL_DEVICE bool isLast() const { return block_.thread() == block_.threads() - 1; }

  /// Things of which each is a matter of its own, by one thread of a warp each.
  template <class Do>
  ECCL_DEVICE void forEach(uint32_t number, const Do& make) {
    if (thread() % Block::kWarp != 0) return;
    const uint32_t warps = (block_.threads() + Block::kWarp - 1) / Block::kWarp;
    for (uint32_t i = thread() / Block::kWarp; i < number; i += warps) make(i);
  }

  /// First, by all threads: brings what a call needs into the block, all at once, since each look at memory
  /// takes as long. What takes longest, a look at the host's memory, goes on beside the rest: aborted().
  ECCL_DEVICE void open(const Call& call, uint32_t index) {
    abort_ = &call.abort[(call.firstBlock + index) % kAbortLines].word;
    if (isLast()) atBegin_ = loadRelaxed(abort_);
    const auto* const from = reinterpret_cast<const Wide*>(call.program);
    auto* const to = reinterpret_cast<Wide*>(&s_.program);
    for (uint32_t i = thread(); i < call.programBytes / sizeof(Wide); i += block_.threads()) to[i] = from[i];
    if (isLast()) {
      s_.call = call;
      s_.awaited = -1;
    }
    block_.sync();
  }
  /// Whether the communicator had been aborted before the call began, or a thread has failed: then it writes
  /// nothing. A barrier.
  ECCL_DEVICE bool aborted() { return block_.any(failed_ || (isLast() && atBegin_ != 0)); }

  /// Last, by all threads, behind a barrier. The last block tells the host that the call is over, unless it is
  /// quiet: a word that is written to the host's memory holds up the end of a kernel.
  ECCL_DEVICE void close(bool stopped) {
    if (thread() != 0) return;
    const BlockProgram& program = s_.program;
    Report& report = *s_.call.report;
    if (stopped && loadRelaxed(program.failed) == 0) storeHint(&report.fault, uint32_t{kAborted});
    if (s_.call.blocks > 1 && (addOne(program.ended) + 1) % s_.call.blocks != 0) return;
    storeHint(program.failed, uint32_t{0});
    if (!s_.call.quiet) storeRelease(&report.over, uint64_t{1});
  }

  /// A list of the program, in the block.
  template <class T>
  ECCL_DEVICE const T* kept(uint32_t list) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(&s_.program) + list);
  }
  /// Finds the lists, wherever they are.
  ECCL_DEVICE void findLists() {
    const BlockProgram& program = s_.program;
    kept_ = s_.call.programBytes > sizeof program;
    const auto find = [&]<class T>(const T*& list, uint32_t at) {
      list = kept_ ? kept<T>(at)
                   : reinterpret_cast<const T*>(reinterpret_cast<const std::byte*>(s_.call.program) + at);
    };
    find(lanes_, program.laneList);
    find(ends_, program.endList);
    find(moves_, program.moveList);
    find(operands_, program.operandList);
    find(pieces_, program.pieceList);
  }
  /// Of a block with one strip that does not keep the lists: copies what is looked at for each move again, if
  /// there is room.
  ECCL_DEVICE void copyLane(const LanePlan& lane) {
    if (lane.moves * sizeof(Move) + lane.operands * sizeof(BlockOperand) + lane.pieces * sizeof(Piece) >
        kListBytes)
      return;
    std::byte* at = s_.lists;
    moves_ = copy(moves_ + lane.firstMove, lane.moves, at);
    operands_ = copy(operands_ + lane.firstOperand, lane.operands, at);
    pieces_ = copy(pieces_ + lane.firstPiece, lane.pieces, at);
    if (thread() == 0) s_.lanes[0].firstMove = s_.lanes[0].firstOperand = s_.lanes[0].firstPiece = 0;
  }
  template <class T>
  ECCL_DEVICE const T* copy(const T* from, uint32_t count, std::byte*& at) const {
    static_assert(sizeof(T) % sizeof(uint64_t) == 0);
    const auto* const words = reinterpret_cast<const uint64_t*>(from);
    auto* const to = reinterpret_cast<uint64_t*>(at);
    for (uint32_t i = thread(); i < count * sizeof(T) / sizeof(uint64_t); i += block_.threads())
      to[i] = words[i];
    at += count * sizeof(T);
    return reinterpret_cast<const T*>(to);
  }

  ECCL_DEVICE const Move& moveOf(uint32_t i, uint32_t number) const {
    return moves_[s_.lanes[i].firstMove + number];
  }
  ECCL_DEVICE const BlockOperand* operandsOf(uint32_t i, const Move& move) const {
    return operands_ + s_.lanes[i].firstOperand + move.firstOperand;
  }
  ECCL_DEVICE const Piece* piecesOf(uint32_t i, const Move& move) const {
    return pieces_ + s_.lanes[i].firstPiece + move.firstPiece;
  }
  ECCL_DEVICE Bounds boundsOf(uint32_t tile, uint32_t strip) const {
    const uint64_t first = tile * s_.program.tile, last = first + s_.program.tile,
                   begin = first + strip * s_.program.strip, end = begin + s_.program.strip;
    return {begin, end < last ? end : last};
  }
  /// How many bytes of a piece are in there.
  ECCL_DEVICE static uint64_t shareOf(const Piece& piece, const Bounds& bounds) {
    const uint64_t end = bounds.end < piece.length ? bounds.end : piece.length;
    return bounds.begin < end ? end - bounds.begin : 0;
  }
  /// Bytes of each message of a move. Of several pieces each begins at a line.
  ECCL_DEVICE uint64_t lengthOf(uint32_t i, const Move& move, uint32_t tile) const {
    return lengthOf(move, piecesOf(i, move), boundsOf(tile, s_.strips[i].number));
  }
  ECCL_DEVICE static uint64_t lengthOf(const Move& move, const Piece* pieces, const Bounds& bounds) {
    uint64_t length = 0;
    for (uint32_t p = 0; p < move.pieces; ++p) {
      const uint64_t share = shareOf(pieces[p], bounds);
      length += move.pieces == 1 ? share : (share + 15) / 16 * 16;
    }
    return length;
  }
  ECCL_DEVICE bool makes(uint32_t i, const Move& move, uint32_t tile, uint64_t length) const {
    return move.relay || length > 0 || (move.always && tile == 0 && s_.strips[i].number == 0);
  }

  /// One in memory.
  ECCL_DEVICE Found inBuffer(const BlockOperand& operand) const {
    const bool scratch = operand.space == Space::scratch;
    std::byte* const buffer = scratch                         ? s_.program.scratch
                              : operand.space == Space::input ? s_.call.input
                                                              : s_.call.output;
    return {buffer + operand.at, 0, -1, scratch ? Way::scratch : Way::memory, operand.pre};
  }
  /// Where a piece's share lies in memory. In scratch a part has room for one tile.
  ECCL_DEVICE std::byte* inMemory(const Found& found, const Piece& piece, uint32_t p, uint32_t tile,
                                  uint64_t begin) const {
    if (found.way == Way::scratch)
      return found.at + p * s_.program.scratchPart + (begin - tile * s_.program.tile);
    return found.at + piece.begin + begin;
  }

  /// By any thread: a wait that the host was told of is over. Of calls that end quietly it sees so that they go
  /// on.
  ECCL_DEVICE void endLongWait() {
    Report& report = *s_.call.report;
    storeHint(&report.progress, loadRelaxed(&report.progress) + 1);
    storeHint(&report.awaited, int32_t{-1});
  }

  /// The communicator has been aborted, or another block has failed.
  ECCL_DEVICE bool ended() const { return loadRelaxed(abort_) != 0 || loadRelaxed(s_.program.failed) != 0; }

  Block& block_;
  BlockState& s_;
  uint32_t served_ = 0, endCount_ = 0;
  const LanePlan* lanes_ = nullptr;
  const EndOf* ends_ = nullptr;
  const Move* moves_ = nullptr;
  const BlockOperand* operands_ = nullptr;
  const Piece* pieces_ = nullptr;
  const uint32_t* abort_ = nullptr;
  uint32_t atBegin_ = 0;  // the word there, as the last thread knows
  bool kept_ = false;     // the block has the lists
  bool failed_ = false;   // as this thread knows
};

}  // namespace eccl::runtime::cuda::lanes
