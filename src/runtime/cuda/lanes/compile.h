// From a Program with sizes to what blocks execute.
#pragma once

#include <vector>

#include "base/status.h"
#include "program/plan_view.h"
#include "runtime/cuda/lanes/block_program.h"

namespace eccl::runtime::cuda::lanes {

/// A BlockProgram without a place yet: its lists, and all that is no pointer. A value.
struct Compiled {
  BlockProgram program{};
  std::vector<LanePlan> lane;
  std::vector<Move> moves;
  std::vector<BlockOperand> operands;
  std::vector<Piece> pieces;
  std::vector<EndOf> ends;  // whose strips have no place yet
  bool isShort = false;     // short_block.h makes it; what is empty has been left out
  bool tells = false;       // a message may refer to the caller's memory, or be written to it
  size_t scratchBytes = 0;
  uint32_t blocks = 0;  // of this rank

  /// Calls visit(list, its place in `program`) for each list, in the order in which they lie behind the
  /// program.
  template <class Visit>
  void forLists(const Visit& visit) {
    visit(lane, program.laneList);
    visit(moves, program.moveList);
    visit(operands, program.operandList);
    visit(pieces, program.pieceList);
    visit(ends, program.endList);
  }
  static constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }
  /// What a block has of a short program: that, its lists, and what it finds of each operand.
  size_t bytesInBlock() {
    size_t bytes = sizeof program;
    forLists([&](const auto& list, uint32_t) { bytes = aligned(bytes) + list.size() * sizeof(list[0]); });
    return aligned(bytes) + operands.size() * sizeof(BlockOperand);
  }
};

/// How many blocks share each lane's work. The same on all ranks, as all that goes in is.
uint32_t widthFor(const Program& program, const PlanView& plan, uint32_t blocks);

/// No Send or Recv has more.
uint32_t mostStripsOfPair(int ranks, uint32_t blocks);

/// Resolves the moves of `program`, whose sizes are `plan`'s, for at most `blocks` blocks. The tiles are the
/// device's own. Error (internal): the program is more than blocks can serve; please report.
Result<Compiled> compile(const Program& program, const PlanView& plan, uint32_t blocks);

}  // namespace eccl::runtime::cuda::lanes
