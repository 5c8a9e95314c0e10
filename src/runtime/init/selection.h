// How the ranks of a communicator come to choose alike: rank 0 makes the table of algorithms and tells it, with
// the cost model it is made from, to the others.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/cost/cost_model.h"
#include "algorithms/selection/select.h"
#include "base/placement.h"
#include "base/settings.h"

namespace eccl::runtime {

/// A value, equal on all ranks.
struct Selection {
  algorithms::CostModel model;  // of ECCL_COST_FILE, else the defaults
  Placement placement;
  std::vector<algorithms::SelectionRule> rules;

  using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;

  /// Of ranks that are where `placement` says. Collective: rank 0 makes the rules, tells them by `gather`, and
  /// writes ECCL_TABLE_DUMP_FILE. An error of a file of rank 0 is everybody's, and says so. Bytes of others are
  /// bounded and checked; errors name the rank. The rules are those of ECCL_TABLE_FILE for the collectives it
  /// names, for others those of the model.
  static Result<Selection> agree(const Settings& settings, int rank, Placement placement, const Gather& gather);

  /// The rules of a communicator of some of these ranks, under the same settings but for ECCL_TABLE_FILE.
  Result<std::vector<algorithms::SelectionRule>> rulesAmong(std::span<const int> ranks,
                                                            const Settings& settings) const;
  /// Microseconds that a call of blocks of `size` takes with the algorithm that is chosen for it, among these
  /// ranks, as estimatedTimeOf() says. `among`: none for all. Error (invalidUsage) for calls that no algorithm
  /// is chosen for.
  Result<double> estimate(Collective collective, const algorithms::CallSize& size,
                          const algorithms::SelectionTable& table, std::span<const int> among = {}) const;
};

}  // namespace eccl::runtime
