// The trace of one run of all Programs: its moves, which move sent the message that another received, and what
// each lane knew of the others. It is a Domain of the AbstractExecutor without data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/verify/move.h"

namespace eccl::algorithms {

/// One recorded move, in 28 bytes: a schedule has millions.
struct TracedMove {
  int32_t lane = 0;   // counted over all ranks
  int32_t place = 0;  // tile * steps of the lane + step
  int32_t repeat = 0;
  int32_t piece = 0;     // the first one: block * parts + part
  int32_t count = 0;     // pieces
  int32_t arrivals = 0;  // into Trace's: for each connection among the sources, the move that sent it
  int32_t known = -1;    // into the lane's knowledge; -1: it never waited
};

/// The moves of one run, numbered in the order they were executed in, which respects every dependency. Owner:
/// one verification. Not thread-safe.
class Trace {
 public:
  struct Payload {
    int32_t sender = -1;
  };

  /// Records at most `most` moves, each counted once for each piece and wait; full() says that there were
  /// more.
  Trace(const std::vector<Program>& programs, int64_t most);

  const char* execute(const Move<Payload>& move);
  void waited(const LaneWait& wait);

  const std::vector<TracedMove>& moves() const { return moves_; }
  const TracedMove& operator[](int32_t move) const { return moves_[move]; }
  /// The move that sent what connection source number `i` of a move received. Only connections are counted.
  int32_t arrival(const TracedMove& move, int i) const { return arrivals_[move.arrivals + i]; }

  int rank(const TracedMove& move) const { return lanes_[move.lane].rank; }
  const Step& step(const TracedMove& move) const {
    const LaneOf& lane = lanes_[move.lane];
    return lane.first[move.place % lane.steps];
  }
  int tile(const TracedMove& move) const { return move.place / lanes_[move.lane].steps; }
  /// "rank 0 lane 1 step 2 repeat 3 tile 0".
  std::string where(const TracedMove& move) const;

  /// By lane of the same rank, from firstLane() on: the last place that is known to have been finished before
  /// this move; -1: none. Empty if nothing was ever waited for.
  std::span<const int32_t> finished(const TracedMove& move) const;
  int firstLane(int lane) const { return lanes_[lane].firstOfRank; }

  /// All moves that touch a piece, in order.
  class ByPiece;
  bool full() const { return left_ < 0; }

 private:
  struct LaneOf {
    int rank, firstOfRank, lanesOfRank, steps;
    const Step* first;
    struct Knowledge {
      int32_t place;  // since this place
      std::vector<int32_t> finished;
    };
    std::vector<Knowledge> knowledge = {};
  };

  std::vector<LaneOf> lanes_;
  std::vector<TracedMove> moves_;
  std::vector<int32_t> arrivals_;
  const int32_t parts_;
  int64_t left_;
};

/// The moves by piece: for each piece the numbers of all moves that touch it, in order.
class Trace::ByPiece {
 public:
  ByPiece(const Trace& trace, int32_t pieces);
  std::span<const int32_t> operator[](int32_t piece) const {
    return {moves_.data() + begin_[piece], moves_.data() + begin_[piece + 1]};
  }

 private:
  std::vector<int32_t> begin_, moves_;
};

}  // namespace eccl::algorithms
