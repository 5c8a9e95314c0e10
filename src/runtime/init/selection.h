// How the ranks of a communicator come to choose alike: rank 0 makes the table of algorithms and tells it, with
// the cost model it is made from, to the others.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/cost/cost_model.h"
#include "algorithms/selection/select.h"
#include "base/placement.h"
#include "base/settings.h"

namespace eccl::runtime {

/// What the ranks of a communicator choose by. A value, equal on all ranks; any thread.
struct Selection {
  algorithms::CostModel model;  // of rank 0's machine (calibration/machine_model.h)
  std::shared_ptr<const Placement> placement;
  std::vector<algorithms::SelectionRule> rules;

  using Gather = std::function<Result<std::vector<std::string>>(std::string_view mine)>;

  /// Of ranks that are where `placement` says. Collective: rank 0 makes the rules, tells them by `gather`,
  /// and writes ECCL_TABLE_DUMP_FILE. The rules are those of ECCL_TABLE_FILE for the collectives it names,
  /// for others those of the model.
  ///
  /// Bytes of rank 0 are bounded and checked. Errors name the rank and are the same on all ranks:
  /// invalidUsage for a file of rank 0, remote or invalidArgument for a text that cannot be read; all these
  /// are logged; or `gather`'s. That the dump cannot be written is a warning only.
  static Result<Selection> agree(const Settings& settings, int rank, std::shared_ptr<const Placement> placement,
                                 const Gather& gather);

  /// The rules of a communicator of some of these ranks, under the same settings but for ECCL_TABLE_FILE.
  /// Takes long the first time; the process keeps the last few.
  Result<std::vector<algorithms::SelectionRule>> rulesAmong(std::span<const int> ranks,
                                                            const Settings& settings) const;
  /// Microseconds that a call of blocks of `size` takes with the algorithm that is chosen for it, among these
  /// ranks, as estimatedTimeOf() says. `among`: none for all. Error (invalidUsage) for calls that no algorithm
  /// is chosen for.
  Result<double> estimate(Collective collective, const algorithms::CallSize& size,
                          const algorithms::SelectionTable& table, std::span<const int> among = {}) const;
};

}  // namespace eccl::runtime
