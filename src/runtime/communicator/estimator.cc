#include "runtime/communicator/estimator.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "algorithms/cost/simulate.h"
#include "algorithms/selection/candidates.h"
#include "runtime/execution/plan.h"
#include "transport/shm/shared_heap.h"

namespace eccl::runtime {
namespace {

size_t greatest(const std::vector<size_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

/// Of the largest block that this rank knows of.
size_t elementsOf(const Call& call) {
  return call.varies() ? std::max(greatest(call.sendCounts), greatest(call.receiveCounts)) : call.count;
}

bool othersReach(const void* memory) {
  const Window window = transport::SharedHeap::ofThisProcess().window();
  return memory == nullptr || window.holds(window.offsetOf(static_cast<const std::byte*>(memory)), 1);
}

}  // namespace

algorithms::CallSize Estimator::sizeFor(DataType type, size_t elements, bool registered) const {
  algorithms::CallSize size;
  size.elements = elements;
  size.elementBytes = static_cast<uint32_t>(sizeOf(type));
  size.slotBytes = algorithms::slotBytesFor(settings_.slotBytes, *selection_.placement);
  size.slots = static_cast<int>(settings_.slots);
  size.registered = registered && !settings_.p2pDisable;
  return size;
}

Result<double> Estimator::estimate(const Call& call) const {
  const algorithms::CallSize size =
      sizeFor(call.type, elementsOf(call), othersReach(call.send) && othersReach(call.receive));
  if (!call.pointToPoint()) return estimate(call.collective, size, ranks_);
  if (call.root == rank_) {
    const std::vector<Program> copy = {pointToPointProgram(call.collective, rank_, ranks_, rank_)};
    return algorithms::simulatedTime(copy, size, selection_.placement->of(std::array{rank_}),
                                     selection_.model.parameters());
  }
  // Rank 0 of these two sends.
  const bool halves = inHalves(*selection_.placement, rank_, call.root, size.elements * size.elementBytes);
  const std::vector<Program> pair = {pointToPointProgram(Collective::send, 0, 2, 1, halves),
                                     pointToPointProgram(Collective::receive, 1, 2, 0, halves)};
  return algorithms::simulatedTime(pair, size, selection_.placement->of(std::array{rank_, call.root}),
                                   selection_.model.parameters());
}

Result<double> Estimator::estimate(Collective collective, DataType type, size_t count, int ranks) const {
  return estimate(collective, sizeFor(type, count, true), ranks);
}

Result<double> Estimator::estimate(Collective collective, const algorithms::CallSize& size, int ranks) const {
  if (size.elements == 0 || ranks == 1) return 0.0;
  if (ranks == ranks_) return selection_.estimate(collective, size, table_);
  std::vector<int> first(static_cast<size_t>(ranks));
  std::iota(first.begin(), first.end(), 0);
  // They would be a communicator of their own, with rules of their own.
  algorithms::SelectionTable table = table_;
  ECCL_ASSIGN(table.rules, selection_.rulesAmong(first, settings_));
  algorithms::CallSize its = size;
  its.slotBytes = algorithms::slotBytesFor(settings_.slotBytes, selection_.placement->of(first));
  return selection_.estimate(collective, its, table, first);
}

}  // namespace eccl::runtime
