// The proof about data, piece by piece. A piece is one part of one block: data never leaves its piece, since
// all operands of a move are the same parts of the same block. For each piece it proves:
//
//  - Every output ends with exactly the contributions the collective asks for, none twice, each scaled (pre)
//    and finished (post) exactly once.
//  - Conflicting accesses to memory are ordered, by events of this piece and waits alone. A message about
//    another piece does not count, because that piece may be empty and its messages are then not sent.
//  - Which memory may be lent instead of copied (Verdict::stable, Verdict::posted).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/builder/collective.h"
#include "algorithms/verify/happens_before.h"
#include "algorithms/verify/rank_sets.h"
#include "algorithms/verify/trace.h"

namespace eccl::algorithms {

/// Proves one piece after another. Owner: one verification, which keeps the programs and the trace alive. Not
/// thread-safe.
class PieceProof {
 public:
  /// `trace`: of a run with `tiles` tiles. `mostWork`: elementary operations after which it gives up.
  PieceProof(const std::vector<Program>& programs, bool inPlace, int tiles, const Trace& trace,
             int64_t mostWork);

  /// Returns "" or what is wrong. `moves`: all that touch the piece, in order; `holders`: the ranks whose
  /// output has the block.
  std::string prove(int32_t block, int32_t part, std::span<const int32_t> moves,
                    std::span<const int32_t> holders);

  /// By rank and operand, over all pieces so far. unstable(): sources that were written before a reference to
  /// them was out of use. unposted(): destinations that were in use when the message for them was sent.
  const std::vector<std::vector<bool>>& unstable() const { return unstable_; }
  const std::vector<std::vector<bool>>& unposted() const { return unposted_; }
  /// It has taken more than mostWork elementary operations; prove() then says so.
  bool gaveUp() const { return work_ + order_.work() > mostWork_; }

 private:
  /// What became of a value: contributions as the user passed them, scaled, finished.
  enum State : uint8_t { kNothing, kRaw, kScaled, kFinal };
  struct Value {
    int32_t set = 0;  // of RankSets
    State state = kNothing;
    bool operator==(const Value&) const = default;
  };
  /// One piece of one buffer of one rank in one tile. Lists: into links_, -1 ends.
  struct Cell {
    int64_t piece = -1;  // the cell was last used for; older contents are void
    Value value;
    int32_t writer = -1;  // event
    int32_t readers = -1, exposures = -1;
  };
  struct Link {
    int32_t event, operand, next;
  };
  struct Event {
    int32_t move;
    int32_t lane, rank, tile;
    const Step* step;
    int32_t previous;        // of the same lane
    int32_t consumers = -1;  // of its messages; into links_
    Value value = {};        // what it delivered
  };
  struct Latest {
    int64_t piece = -1;
    int32_t event = -1;  // of a lane
  };

  // Adds one move of the piece: its order, the value it combines, and what it delivers. nullptr or what is
  // wrong.
  const char* add(int32_t moveNumber, std::span<const int32_t> moves);
  // Adds the move as an event, after the lane's last one, the senders of its messages and what its waits made
  // sure of.
  void order(const TracedMove& move, const Event& event, std::span<const int32_t> arrivals);
  // Computes the value of the move from its sources.
  const char* combine(int32_t event, std::span<const int32_t> arrivals);
  // Adds one source to the sum: contributions must be disjoint, and scaled as the step says.
  const char* take(const Operand& operand, Value from, bool several, Value& sum);
  // Puts the value into the destinations.
  const char* deliver(int32_t event, std::span<const int32_t> arrivals);
  // The accesses of a cell. Each asks whether the conflicting accesses before it happen before it.
  void read(Cell& cell, int32_t event);
  void write(Cell& cell, int32_t event);
  // A write by the sender of a message, into memory that its receiver posted.
  void writeAhead(Cell& cell, int32_t event, int32_t operand, int32_t sender);
  // Answers the questions that were asked about order.
  std::string checkOrder();
  // Compares each output with what the collective asks for.
  std::string checkOutputs(std::span<const int32_t> holders);

  Cell& cell(int rank, Space space, int tile);
  bool aliased(int rank) const;
  int32_t latest(int lane) const { return latest_[lane].piece == piece_ ? latest_[lane].event : -1; }
  int32_t link(Link link) {
    links_.push_back(link);
    return static_cast<int32_t>(links_.size()) - 1;
  }

  const std::vector<Program>& programs_;
  const CollectiveShape shape_;
  const bool inPlace_, reducing_;
  const int tiles_;
  const Trace& trace_;
  const int64_t mostWork_;
  std::vector<std::vector<bool>> unstable_, unposted_;

  // Of the piece under proof.
  int64_t piece_ = -1;  // counts
  int32_t block_ = 0, part_ = 0;
  RankSets sets_;
  HappensBefore order_;
  std::vector<Event> events_;
  std::vector<Link> links_;
  std::vector<Cell> cells_;
  std::vector<Latest> latest_;
  std::vector<int32_t> predecessors_;
  int64_t work_ = 0;
};

}  // namespace eccl::algorithms
