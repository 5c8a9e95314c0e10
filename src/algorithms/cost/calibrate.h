// The constants of the cost model from measured times.
#pragma once

#include <span>

#include "algorithms/cost/cost_model.h"
#include "algorithms/cost/measurement.h"

namespace eccl::algorithms {

/// The model that explains measurements: the constants that do so best, by the sum of the squared relative
/// errors, and what is left as corrections.
///
/// As the critical path depends on the constants, it is found for the last ones, the
/// least-squares problem is solved for it, and so on (Gauss and Newton's method; the time is piecewise linear,
/// so that is exact within a piece). Constants that the measurements say nothing about stay as in `start`.
/// Calls that one correction is for, such as the same one measured twice, get their geometric mean. Errors:
/// simulatedTime()'s.
Result<CostModel> calibrate(std::span<const Measurement> measurements, const CostParameters& start);

/// Microseconds. Errors: simulatedTime()'s.
Result<double> predict(const Measurement& measurement, const CostModel& model);

/// How far predictions are off.
struct Accuracy {
  double median = 0, percentile95 = 0, most = 0;  ///< of |predicted - measured| / measured
  size_t calls = 0;
};
Result<Accuracy> accuracyOf(std::span<const Measurement> measurements, const CostModel& model);

}  // namespace eccl::algorithms
