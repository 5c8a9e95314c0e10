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

/// How an operand of the present move is passed.
enum class Way : uint8_t { memory, slot, line, reference, place };

/// The shared memory of a block.
struct BlockState {
  static constexpr size_t kPlanBytes = 16 << 10;

  Call call;
  BlockProgram program;
  Strip strips[kMaxServed];
  LanePlan lanes[kMaxServed];
  End ends[kMaxEnds];
  Work work;
  std::byte* base[2 * kMaxOperands];  // of operands: in memory where the block begins, else the message
  Way way[2 * kMaxOperands];
  uint64_t length;  // of the messages
  int32_t awaited;
  alignas(16) std::byte plan[kPlanBytes];  // moves, operands and pieces, where there is room
};

/// What one thread of a block knows. `Block`: thread(), threads(); sync(), a barrier; all(bool) and any(bool),
/// barriers that tell; pause(); kLong, looks that are worth telling the host.
template <class Block>
class BlockView {
 protected:
  ECCL_DEVICE BlockView(Block& block, BlockState& state) : block_(block), s_(state) {}
  ECCL_DEVICE uint32_t thread() const { return block_.thread(); }

  /// What is looked at for each move again: of all lanes, or, if `lane` is the only one, of that, if there is
  /// room.
  ECCL_DEVICE void copyPlan(uint32_t lane) {
    const BlockProgram& program = s_.program;
    LanePlan part{};
    part.moves = program.moveCount;
    part.operands = program.operandCount;
    part.pieces = program.pieceCount;
    if (!fits(part) && served_ == 1) part = program.lane[lane];
    shift_ = {};
    moves_ = program.moves;
    operands_ = program.operands;
    pieces_ = program.pieces;
    if (!fits(part)) return;
    std::byte* at = s_.plan;
    moves_ = copy(program.moves + part.firstMove, part.moves, at);
    operands_ = copy(program.operands + part.firstOperand, part.operands, at);
    pieces_ = copy(program.pieces + part.firstPiece, part.pieces, at);
    shift_ = {part.firstMove, part.firstOperand, part.firstPiece};
  }
  ECCL_DEVICE static bool fits(const LanePlan& part) {
    return part.moves * sizeof(Move) + part.operands * sizeof(BlockOperand) + part.pieces * sizeof(Piece) <=
           BlockState::kPlanBytes;
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
    return moves_[s_.lanes[i].firstMove - shift_.move + number];
  }
  ECCL_DEVICE const BlockOperand* operandsOf(uint32_t i, const Move& move) const {
    return operands_ + (s_.lanes[i].firstOperand - shift_.operand) + move.firstOperand;
  }
  ECCL_DEVICE const Piece* piecesOf(uint32_t i, const Move& move) const {
    return pieces_ + (s_.lanes[i].firstPiece - shift_.piece) + move.firstPiece;
  }
  /// The strip's share of a piece in a tile: bytes [*begin, *begin + result) of the piece.
  ECCL_DEVICE uint64_t shareOf(const Piece& piece, uint32_t tile, uint32_t strip, uint64_t* begin) const {
    const uint64_t first = tile * s_.program.tile, from = first + strip * s_.program.strip;
    uint64_t to =
        first + s_.program.tile < from + s_.program.strip ? first + s_.program.tile : from + s_.program.strip;
    to = to < piece.length ? to : piece.length;
    *begin = from;
    return from < to ? to - from : 0;
  }
  /// Bytes of each message of a move. Of several pieces each begins at a line.
  ECCL_DEVICE uint64_t lengthOf(uint32_t i, const Move& move, uint32_t tile) const {
    uint64_t length = 0, begin;
    const Piece* const pieces = piecesOf(i, move);
    for (uint32_t p = 0; p < move.pieces; ++p) {
      const uint64_t share = shareOf(pieces[p], tile, s_.strips[i].number, &begin);
      length += move.pieces == 1 ? share : (share + 15) / 16 * 16;
    }
    return length;
  }
  ECCL_DEVICE bool makes(uint32_t i, const Move& move, uint32_t tile, uint64_t length) const {
    return move.relay || length > 0 || (move.always && tile == 0 && s_.strips[i].number == 0);
  }

  ECCL_DEVICE std::byte* bufferOf(Space space) const {
    return space == Space::input ? s_.call.input : space == Space::output ? s_.call.output : s_.program.scratch;
  }
  /// Where a piece's share lies in memory. In scratch a part has room for one tile.
  ECCL_DEVICE std::byte* inMemory(const BlockOperand& operand, std::byte* base, const Piece& piece, uint32_t p,
                                  uint32_t tile, uint64_t begin) const {
    if (operand.space == Space::scratch)
      return base + p * s_.program.scratchPart + (begin - tile * s_.program.tile);
    return base + piece.begin + begin;
  }

  /// The communicator has been aborted, or another block has failed.
  ECCL_DEVICE bool ended() const { return loadRelaxed(abort_) != 0 || loadRelaxed(s_.program.failed) != 0; }

  Block& block_;
  BlockState& s_;
  uint32_t served_ = 0, endCount_ = 0;
  const Move* moves_ = nullptr;
  const BlockOperand* operands_ = nullptr;
  const Piece* pieces_ = nullptr;
  struct {
    uint32_t move, operand, piece;
  } shift_{};  // of the lists above: where in the program's they begin
  const uint32_t* abort_ = nullptr;
  bool failed_ = false;  // as this thread knows
};

}  // namespace eccl::runtime::cuda::lanes
