// What calls are expected to take: the constants of a machine, and how far measured calls were from what they
// give. Read from a file, written by `eccl_topo measure`, or the defaults.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "algorithms/cost/simulate.h"
#include "algorithms/library/algorithm.h"

namespace eccl::algorithms {

/// The factors that a file may give.
inline constexpr double kMinCorrection = 1e-3, kMaxCorrection = 1e3;
/// What a measured call took, as a multiple of what the constants say.
struct Correction {
  const Algorithm* algorithm = nullptr;
  bool memory = true;  ///< among ranks that all look at the same memory
  int ranks = 0;
  double bytes = 0;  ///< of a block
  double factor = 1;
  bool operator==(const Correction&) const = default;
};

/// A value; any thread may read it.
class CostModel {
 public:
  CostModel() = default;  // the default constants, nothing measured
  /// Of corrections no two are for the same algorithm, memory, ranks and bytes; any order.
  CostModel(const CostParameters& parameters, std::vector<Correction> corrections);

  const CostParameters& parameters() const { return parameters_; }
  const std::vector<Correction>& corrections() const { return corrections_; }
  bool operator==(const CostModel&) const = default;

  /// Microseconds of a call: the simulated time by factorFor(). `programs` are those of `algorithm` for all
  /// ranks. `mostTiles` and errors: simulatedTime()'s.
  Result<double> predict(const Algorithm& algorithm, const std::vector<Program>& programs, const CallSize& size,
                         const Placement& placement, int64_t mostTiles = kEnoughTiles) const;
  /// What predict() multiplies with: the corrections of the algorithm, interpolated over the logarithms of
  /// bytes and ranks, and beyond those measured as at the nearest. 1 if there are none of its kind.
  double factorFor(const Algorithm& algorithm, bool memory, int ranks, double bytes) const;

  /// As a text: "lines" and their number, so that a text that is cut off is seen, then lines "constant value"
  /// and "correct collective algorithm memory|network ranks bytes factor":
  ///   lines 36
  ///   call 2.6
  ///   ...
  ///   correct AllReduce ring memory 2 65536 1.25
  std::string text() const;
  /// Reads what text() wrote. # begins a comment; a constant that is not given keeps its default; the number
  /// of lines may be left out. Errors (invalidArgument) begin with `name`, which stands for the text, and the
  /// line. Not logged.
  static Result<CostModel> parse(std::string_view text, const std::string& name);
  /// Reads a file. Errors name it: parse()'s and readWholeLines()'s. An empty file, or one that ends within a
  /// line, is an error. Not logged.
  static Result<CostModel> load(const std::string& path);

 private:
  CostParameters parameters_ = CostParameters::defaults();
  std::vector<Correction> corrections_;  // sorted: by algorithm, memory, ranks, bytes
};

}  // namespace eccl::algorithms
