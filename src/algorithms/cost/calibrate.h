// The constants of the cost model from measured times.
#pragma once

#include <span>

#include "algorithms/cost/cost_model.h"
#include "algorithms/cost/measurement.h"

namespace eccl::algorithms {

/// The model that explains measurements: the constants that do so best, by the sum of the squared relative
/// errors, and what is left as corrections.
///
/// The time is piecewise linear in the constants: within a piece the critical path is the same. So the
/// critical path is found for the last constants, the least-squares problem is solved for it, and so on (the
/// method of Gauss and Newton). Constants that the measurements say nothing about stay as in `start`. Calls
/// that one correction is for, such as the same one measured twice, get their geometric mean. A correction is
/// kept within kMinCorrection and kMaxCorrection.
///
/// Takes time in proportion to the measurements: each is simulated some fifteen times. Pure; any thread.
/// Errors: simulatedTime()'s.
Result<CostModel> calibrate(std::span<const Measurement> measurements, const CostParameters& start);

/// The microseconds that the model expects of a measured call. Errors: simulatedTime()'s.
Result<double> predict(const Measurement& measurement, const CostModel& model);

/// How far predictions are off.
struct Accuracy {
  double median = 0, percentile95 = 0, most = 0;  ///< of |predicted - measured| / measured
  size_t calls = 0;
};
/// Of all measurements; zeros if there are none. Errors: simulatedTime()'s.
Result<Accuracy> accuracyOf(std::span<const Measurement> measurements, const CostModel& model);

}  // namespace eccl::algorithms
