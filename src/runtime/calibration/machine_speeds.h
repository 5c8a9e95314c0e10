// How fast this machine is: the constants of the cost model that two of its processors can measure in a moment.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "algorithms/cost/cost_parameters.h"
#include "base/status.h"

namespace eccl::runtime {

/// Processors such as two ranks would run on.
struct ProcessorPair {
  int first = 0, second = 0;
};
/// The first of `allowed` and the next that is no thread of the same core, or just the next where all are. A
/// process that is bound to one processor measures with another one of `online`. None where there is only one.
std::optional<ProcessorPair> processorsOf(const std::vector<int>& allowed, const std::vector<int>& online,
                                          const std::vector<int>& threadsOfTheFirst);

/// The constants that were measured, and those of `defaults` for the rest: calls, moves, the network. Measured
/// is what the host executor would do, with the kernels of this machine, on memory in small pages whose owners
/// have just written their inputs. `cacheShare`: bytes of the largest cache for each of two ranks.
///
/// Two threads work on the two processors, for 20 to 100 ms, with 68 MiB of memory; after 500 they give up. The
/// calling thread waits. Of several tries the best counts. Errors (system), not logged: no threads, no memory,
/// no such processors, or processors that were busy with something else, where the figures would not be the
/// machine's.
Result<algorithms::CostParameters> measureSpeeds(ProcessorPair processors, size_t cacheShare,
                                                 const algorithms::CostParameters& defaults);

}  // namespace eccl::runtime
