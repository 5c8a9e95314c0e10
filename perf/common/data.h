// Test data whose every answer is known exactly.
//
// A collective describes its buffers as segments; this file fills them and counts the wrong elements. Two
// kinds of data:
//  - What is only moved is a hash of (repetition, source rank, index): any bit pattern, compared bit by bit.
//  - What is reduced is drawn from tables of small numbers chosen so that every partial result, in any
//    order, is exact in the type. The hash of (repetition, index) picks a row, which fixes the magnitudes,
//    and a rotation, which decides which rank plays which part. So the inputs differ from rank to rank,
//    and the answer costs one look-up however many ranks there are.
//
// The one inexact case is Avg on floating types when the number of ranks is not a power of two: 1/n is not
// representable. There only two ranks contribute something other than zero, which limits the roundings to
// three (two products and one sum, half an ulp each), and two ulps are tolerated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/types.h"

namespace eccl::perf {

/// `count` elements at element `offset` of a buffer, and what they are.
struct Segment {
  enum class Kind {
    zero,          ///< untouched since the buffer was cleared
    copied,        ///< elements index.. of what rank `source` has to send
    contribution,  ///< elements index.. of what rank `source` gives to a reduction
    reduced,       ///< elements index.. of the reduction's result
  };
  Kind kind;
  size_t offset;
  size_t count;
  int source = 0;
  size_t index = 0;
};

/// Numbers for one (type, operator, number of ranks). Not thread-safe: one per thread.
class Generator {
 public:
  Generator(const TypeInfo& type, Op op, int nranks);

  /// Writes `segments` of repetition `repetition` into `buffer`. Segments of kind zero are cleared.
  void fill(void* buffer, const std::vector<Segment>& segments, uint64_t repetition);
  /// How many elements of `buffer` differ from what `segments` says, beyond tolerance().
  int64_t countWrong(const void* buffer, const std::vector<Segment>& segments, uint64_t repetition);

  /// Rank's factor for mulsum: exact in every type, and different on neighbouring ranks.
  static double scalar(int rank) { return 1 + rank % 2; }
  /// In ulps of the expected value.
  double tolerance() const { return tolerance_; }

  // What the tables hold, for tests.
  int rows() const { return rows_; }
  /// What the rank that plays `part` gives in `row`; part of a rank = (rank + rotation) mod nranks.
  double contribution(int row, int part) const;
  double reduced(int row, int rotation) const;
  /// Encoded, row-major by rotation. All generators of a process that are alike have one table.
  const std::vector<uint64_t>& results();

 private:
  void planSum();
  void planProduct();
  void planOrder();
  void planInexactAverage();
  double rowScale(int row) const;
  double scaled(double scale, int part) const;
  const std::vector<uint64_t>& tableOf(int rank);
  const std::vector<uint64_t>& table(const Segment& segment);
  bool accepts(uint64_t expected, uint64_t found) const;

  const TypeInfo& type_;
  const Op op_;
  const int nranks_;
  int rows_;
  double tolerance_ = 0;
  bool firstPartVaries_ = false;  // only part 0 is scaled by the row: products, whose factors must stay small
  std::vector<double> weights_;   // of each part
  double largestScale_ = 1;       // row multipliers are 1 .. this
  std::map<int, std::vector<uint64_t>> inputs_;  // by rank: encoded contributions, row-major by rotation
  std::shared_ptr<const std::vector<uint64_t>> results_;  // null: not needed yet
};

}  // namespace eccl::perf
