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
  std::vector<int32_t> ends;  // by EndOf: the connection of the Program
  size_t scratchBytes = 0;
  uint32_t blocks = 0;  // of this rank
};

/// How many blocks share each lane's work. The same on all ranks, as all that goes in is.
uint32_t widthFor(const Program& program, const PlanView& plan, uint32_t blocks);

/// No Send or Recv has more.
uint32_t mostStripsOfPair(int ranks, uint32_t blocks);

/// Resolves the moves of `program`, whose sizes are `plan`'s, for at most `blocks` blocks. The tiles are the
/// device's own. Error (internal): the program is more than blocks can serve; please report.
Result<Compiled> compile(const Program& program, const PlanView& plan, uint32_t blocks);

}  // namespace eccl::runtime::cuda::lanes
