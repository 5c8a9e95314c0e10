// Who sends how much to whom in alltoallv_perf.
#pragma once

#include <cstddef>
#include <vector>

#include "common/environment.h"

namespace eccl::perf {

/// Either generated (a farther rank gets more; how much more is SPREAD, 0 = all equal … 1 = proportional to
/// the distance) or read from a file of bytes, row = sender. Every entry is a multiple of 16 bytes.
class Traffic {
 public:
  /// Reads NCCL_TESTS_ALLTOALLV_SPREAD, _MATRIX_FILE and _MATRIX_SCALE.
  static Outcome fromEnvironment(const Environment& environment, int nranks, Traffic* traffic);
  static Outcome parseMatrix(const std::string& text, const std::string& name, double scale, int nranks,
                             Traffic* traffic);
  static Traffic generated(double spread);

  bool isMatrix() const { return !matrix_.empty(); }
  /// Bytes from one rank to another when each rank has `total` to send; a matrix does not depend on it.
  size_t bytes(int from, int to, int nranks, size_t total) const;
  /// The most that any rank sends or receives, in elements of `elementBytes`.
  size_t busiest(int nranks, size_t total, size_t elementBytes) const;

 private:
  double spread_ = 1;
  std::vector<std::vector<size_t>> matrix_;
};

}  // namespace eccl::perf
