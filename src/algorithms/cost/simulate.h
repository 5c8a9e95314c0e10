// How long the Programs of all ranks take together: they are executed with a clock for every lane, core and
// port instead of data. The cost model is this and the constants of cost_parameters.h.
//
// A move begins when its lane has come to it, its messages have arrived and its slots are free. It occupies
// its rank's core. Ranks that share memory read and write each other's buffers where the rule of delivery
// (program/delivery.h) says so; else messages are copied into slots and out of them. A message to another
// host occupies the port there and the port here for its length.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "algorithms/cost/cost_parameters.h"
#include "base/placement.h"
#include "base/status.h"
#include "program/plan_view.h"
#include "program/program.h"

namespace eccl::algorithms {

/// The sizes of a call. All blocks are equally long.
struct CallSize {
  uint64_t elements = 0;  ///< of a block
  uint32_t elementBytes = 1;
  uint64_t slotBytes = 131072;  ///< most bytes of a message
  int slots = 8;                ///< per connection
  bool registered = true;       ///< buffers that ranks of one machine can get at
  bool inPlace = false;         ///< what is copied from input to output as it is, is there already
};

/// For `mostTiles`: as many as are worth executing, some thousand moves.
inline constexpr int64_t kEnoughTiles = 0;

/// How long it is until the last rank has finished, in microseconds.
///
/// `programs`: one per rank, in order, that verifyStructure() accepts, with at least one tile of data to
/// move. `placement` has as many ranks. Beyond `mostTiles` (4 or more) the time of one more tile is taken to
/// be always the same.
///
/// Pure; any thread. Error (internal): the programs do not come to an end. Not logged.
Result<double> simulatedTime(const std::vector<Program>& programs, const CallSize& size,
                             const Placement& placement, const CostParameters& parameters,
                             int64_t mostTiles = kEnoughTiles);

/// How much of each constant the critical path holds, the longest chain of moves. The simulated time is their
/// product with the parameters, and they are its derivatives. Takes several times as long as simulatedTime(),
/// which has the contract.
using CostAmounts = std::array<double, kCostTerms>;
Result<CostAmounts> simulatedAmounts(const std::vector<Program>& programs, const CallSize& size,
                                     const Placement& placement, const CostParameters& parameters);

}  // namespace eccl::algorithms
