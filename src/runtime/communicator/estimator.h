// What calls are expected to take.
#pragma once

#include "base/settings.h"
#include "runtime/execution/call.h"
#include "runtime/init/selection.h"

namespace eccl::runtime {

/// A value that refers to what a communicator knows, and is valid as long as that. Any thread.
class Estimator {
 public:
  /// `table`: what calls are chosen by.
  Estimator(const Settings& settings, int rank, int ranks, const Selection& selection,
            const algorithms::SelectionTable& table)
      : settings_(settings), rank_(rank), ranks_(ranks), selection_(selection), table_(table) {}

  /// The microseconds that a validated call made by this rank is expected to take. Memory that is not of
  /// ecclMemAlloc counts as such that ranks cannot reach. Errors: the simulator's, or invalidUsage for a call
  /// that no algorithm is chosen for.
  Result<double> estimate(const Call& call) const;
  /// As above, for a collective in memory of ecclMemAlloc, among the first `ranks` ranks, 1 or more.
  Result<double> estimate(Collective collective, DataType type, size_t count, int ranks) const;

 private:
  algorithms::CallSize sizeFor(DataType type, size_t elements, bool registered) const;
  Result<double> estimate(Collective collective, const algorithms::CallSize& size, int ranks) const;

  const Settings& settings_;
  const int rank_, ranks_;
  const Selection& selection_;
  const algorithms::SelectionTable& table_;
};

}  // namespace eccl::runtime
