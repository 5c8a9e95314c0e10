// Measured calls, as they are kept in files: what the cost model is fitted to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/cost/simulate.h"
#include "algorithms/library/algorithm.h"

namespace eccl::algorithms {

/// One measured call.
struct Measurement {
  const Algorithm* algorithm = nullptr;
  CallSize size;
  Placement placement;
  double microseconds = 0;  ///< > 0: from when all ranks make the call until the last one has its result

  CollectiveShape shape() const { return {algorithm->collective, placement.ranks(), 0}; }
  double blockBytes() const { return static_cast<double>(size.elements) * size.elementBytes; }
  /// Of all ranks, with one channel. Made anew each time.
  std::vector<Program> programs() const { return buildAll(*algorithm, shape(), placement, 1); }
};

/// Lines "ranks MACHINE:MEMORY:PORT …", "cores N …", and of calls among these "call COLLECTIVE ALGORITHM
/// ELEMENTS BYTES SLOTBYTES SLOTS registered|plain MICROSECONDS":
///   ranks 0:0:0 0:0:0
///   cores 2
///   call AllReduce ring 1024 4 131072 8 registered 12.5
///
/// Of a placement it keeps the machines with their cores, the memories and each rank's first port. Hosts that
/// share a machine, the speed of ports, NUMA nodes and accelerators are lost.
std::string textOf(std::span<const Measurement> measurements);
/// Reads what textOf() wrote; # begins a comment. Errors (invalidArgument) begin with `name`, which stands
/// for the text, and the line. Not logged. Any thread, as for the others here.
Result<std::vector<Measurement>> parseMeasurements(std::string_view text, const std::string& name);

}  // namespace eccl::algorithms
