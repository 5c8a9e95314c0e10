// The proof of one piece: values are sets of contributions that are followed from move to move, and order is
// asked for every two conflicting accesses.
#include "algorithms/verify/piece_proof.h"

#include <algorithm>

#include "base/status.h"

namespace eccl::algorithms {
namespace {

// Subjects of questions about order. From 0: the operand that wants to be stable. From kPosted down: the link
// of the move and its operand that wants to be posted.
constexpr int32_t kRead = -1, kWrite = -2, kPosted = -3;

/// Whether a step's only source is this kind of operand and passes through unchanged.
bool passes(const Program& program, const Step& step, bool fromConnection) {
  return step.sources == 1 && !step.post &&
         (program.operands[step.firstOperand].space == Space::connection) == fromConnection;
}

}  // namespace

PieceProof::PieceProof(const std::vector<Program>& programs, bool inPlace, int tiles, const Trace& trace,
                       int64_t mostWork)
    : programs_(programs),
      shape_{programs[0].collective, programs[0].ranks, programs[0].root},
      inPlace_(inPlace),
      reducing_(reduces(programs[0].collective)),
      tiles_(tiles),
      trace_(trace),
      mostWork_(mostWork),
      sets_(programs[0].ranks),
      cells_(programs.size() * kMemorySpaces * tiles) {
  size_t lanes = 0;
  for (const Program& program : programs) {
    unstable_.emplace_back(program.operands.size());
    unposted_.emplace_back(program.operands.size());
    lanes += program.lanes.size();
  }
  latest_.resize(lanes);
}

std::string PieceProof::prove(int32_t block, int32_t part, std::span<const int32_t> moves,
                              std::span<const int32_t> holders) {
  ++piece_;
  block_ = block;
  part_ = part;
  sets_.clear();
  order_.clear();
  events_.clear();
  links_.clear();
  for (int32_t move : moves) {
    if (const char* wrong = add(move, moves)) return trace_.where(trace_[move]) + ": " + wrong;
    if (gaveUp()) break;
  }
  std::string wrong = checkOrder();
  if (wrong.empty() && gaveUp()) wrong = "too many accesses to the same data to verify";
  return wrong.empty() ? checkOutputs(holders) : wrong;
}

bool PieceProof::aliased(int rank) const {
  return inPlace_ && shape_.mayBeInPlace(rank) && programs_[rank].map(Space::input).position(block_) >= 0 &&
         programs_[rank].map(Space::output).position(block_) >= 0;
}

PieceProof::Cell& PieceProof::cell(int rank, Space space, int tile) {
  const bool shared = space != Space::scratch && aliased(rank);
  if (shared) space = Space::output;
  if (space == Space::scratch) tile = 0;  // used anew by each tile
  Cell& found = cells_[(static_cast<size_t>(rank) * kMemorySpaces + static_cast<int>(space)) * tiles_ + tile];
  if (found.piece != piece_) {
    found = {piece_};
    if (space == Space::input || shared) found.value = {rank, kRaw};
  }
  return found;
}

const char* PieceProof::add(int32_t moveNumber, std::span<const int32_t> moves) {
  const TracedMove& move = trace_[moveNumber];
  const Step& step = trace_.step(move);
  const int rank = trace_.rank(move);
  const Program& program = programs_[rank];
  const int32_t event = static_cast<int32_t>(events_.size());
  // The events that sent what this one receives; they cover the piece, since a message is what its receiver
  // expects.
  int32_t arrivals[kMaxOperands];
  int arrived = 0;
  for (int i = 0; i < step.sources; ++i) {
    if (program.operands[step.firstOperand + i].space != Space::connection) continue;
    auto at = std::lower_bound(moves.begin(), moves.end(), trace_.arrival(move, arrived));
    arrivals[arrived] = static_cast<int32_t>(at - moves.begin());
    Event& sender = events_[arrivals[arrived++]];
    sender.consumers = link({event, 0, sender.consumers});
  }
  std::span<const int32_t> from(arrivals, arrived);
  events_.push_back({moveNumber, move.lane, rank, trace_.tile(move), &step, latest(move.lane)});
  order(move, events_.back(), from);
  latest_[move.lane] = {piece_, event};
  if (const char* wrong = combine(event, from)) return wrong;
  return deliver(event, from);
}

/// Tells order_ what the newest event follows.
void PieceProof::order(const TracedMove& move, const Event& event, std::span<const int32_t> arrivals) {
  const int32_t previous = event.previous;
  predecessors_.assign(arrivals.begin(), arrivals.end());
  if (previous >= 0) predecessors_.push_back(previous);
  if (previous < 0 || trace_[events_[previous].move].known != move.known) {
    std::span<const int32_t> finished = trace_.finished(move);
    const int first = trace_.firstLane(move.lane);
    work_ += static_cast<int64_t>(finished.size());
    for (size_t i = 0; i < finished.size(); ++i) {
      int32_t other = latest(first + static_cast<int>(i));
      for (; other >= 0 && trace_[events_[other].move].place > finished[i]; ++work_) {
        other = events_[other].previous;
      }
      if (other >= 0) predecessors_.push_back(other);
    }
  }
  order_.add(predecessors_);
}

/// Reads the sources and works out what the move delivers.
const char* PieceProof::combine(int32_t event, std::span<const int32_t> arrivals) {
  const int rank = events_[event].rank, tile = events_[event].tile;
  const Step& step = *events_[event].step;
  Value sum;
  int arrived = 0;
  for (int i = 0; i < step.sources; ++i) {
    const Operand& operand = programs_[rank].operands[step.firstOperand + i];
    Value from;
    if (operand.space == Space::connection) {
      from = events_[arrivals[arrived++]].value;
    } else {
      Cell& source = cell(rank, operand.space, tile);
      from = source.value;
      if (operand.space == Space::input && from != Value{rank, kRaw}) {
        return "reads input that an output in the same place has overwritten";
      }
      read(source, event);
    }
    if (const char* wrong = take(operand, from, step.sources > 1, sum)) return wrong;
  }
  if (step.post) {
    if (sum.state != kScaled) return "finishes a value that is not a sum of scaled contributions";
    if (!sets_.isAll(sum.set)) return "finishes an incomplete sum";
    sum.state = kFinal;
  }
  events_[event].value = sum;
  return nullptr;
}

/// sum += from.
const char* PieceProof::take(const Operand& operand, Value from, bool several, Value& sum) {
  if (from.state == kNothing) return "reads memory that nothing was put into";
  if (operand.pre) {
    if (from.state != kRaw) return "scales a value that is not a raw contribution";
    from.state = kScaled;
  }
  if (several && from.state != kScaled) return "combines values that are not scaled contributions";
  if (sum.state == kNothing) {
    sum = from;
    return nullptr;
  }
  return sets_.unite(sum.set, from.set, sum.set) ? nullptr : "adds one contribution twice";
}

/// Puts the value where the move's destinations are. Messages need nothing: receivers look at the event.
const char* PieceProof::deliver(int32_t event, std::span<const int32_t> arrivals) {
  const int rank = events_[event].rank, tile = events_[event].tile;
  const Step& step = *events_[event].step;
  const Program& program = programs_[rank];
  const Operand* operands = &program.operands[step.firstOperand];
  // A message made of one piece of memory could be a reference to it: watch what happens to that, from this
  // very step's own writes on.
  bool sends = false;
  for (int i = step.sources; i < step.sources + step.destinations; ++i) {
    sends |= operands[i].space == Space::connection;
  }
  if (sends && passes(program, step, false)) {
    Cell& source = cell(rank, operands[0].space, tile);
    source.exposures = link({event, step.firstOperand, source.exposures});
  }
  for (int i = step.sources; i < step.sources + step.destinations; ++i) {
    if (operands[i].space == Space::connection) continue;
    Cell& target = cell(rank, operands[i].space, tile);
    // In place, executors skip a copy of a place onto itself: no write happens.
    const bool onto =
        !reducing_ && operands[0].space != Space::connection && &cell(rank, operands[0].space, tile) == &target;
    if (!onto && i == step.sources && passes(program, step, true))
      writeAhead(target, event, step.firstOperand + i, arrivals[0]);
    if (!onto) write(target, event);
    target.value = events_[event].value;
  }
  return nullptr;
}

// For races it is enough to remember the last write and what was read since: whatever conflicts with something
// earlier also conflicts with one of these, or a race was found before (C. Flanagan, S. N. Freund, "FastTrack:
// efficient and precise dynamic race detection", PLDI 2009).
void PieceProof::read(Cell& cell, int32_t event) {
  const int32_t lane = events_[event].lane;
  if (cell.writer >= 0 && events_[cell.writer].lane != lane) order_.ask(cell.writer, event, kRead);
  for (int32_t at = cell.readers; at >= 0; at = links_[at].next, ++work_) {
    if (events_[links_[at].event].lane != lane) continue;
    links_[at].event = event;  // the lane's later read stands for its earlier one
    return;
  }
  cell.readers = link({event, 0, cell.readers});
}

void PieceProof::write(Cell& cell, int32_t event) {
  const int32_t lane = events_[event].lane, rank = events_[event].rank;
  const Program& program = programs_[rank];
  if (cell.writer >= 0 && events_[cell.writer].lane != lane) order_.ask(cell.writer, event, kWrite);
  for (int32_t at = cell.readers; at >= 0; at = links_[at].next, ++work_) {
    if (events_[links_[at].event].lane != lane) order_.ask(links_[at].event, event, kWrite);
  }
  for (int32_t at = cell.exposures; at >= 0; at = links_[at].next) {
    const auto [sender, operand, next] = links_[at];
    const Step& exposing = *events_[sender].step;
    // A receiver that has not read by now is not known to read before this write.
    int32_t outstanding = 0;
    for (int i = exposing.sources; i < exposing.sources + exposing.destinations; ++i) {
      outstanding += program.operands[exposing.firstOperand + i].space == Space::connection;
    }
    for (int32_t c = events_[sender].consumers; c >= 0; c = links_[c].next, --outstanding, ++work_) {
      order_.ask(links_[c].event, event, operand);
    }
    if (outstanding > 0) unstable_[rank][operand] = true;
  }
  cell.writer = event;
  cell.readers = cell.exposures = -1;
}

/// As if the move that sends the message wrote to its receiver's memory: what uses that must have happened
/// before. The sender may read it too, by a reference, in the same move: what it writes there is made of what
/// it read.
void PieceProof::writeAhead(Cell& cell, int32_t event, int32_t operand, int32_t sender) {
  const int32_t rank = events_[event].rank;
  if (unposted_[rank][operand]) return;
  const int32_t subject = kPosted - link({event, operand, -1});
  auto happenedBefore = [&](int32_t use) {
    ++work_;
    if (use > sender) unposted_[rank][operand] = true;
    if (use < sender) order_.ask(use, sender, subject);
  };
  if (cell.writer >= 0) happenedBefore(cell.writer);
  for (int32_t at = cell.readers; at >= 0; at = links_[at].next) happenedBefore(links_[at].event);
  for (int32_t at = cell.exposures; at >= 0; at = links_[at].next) {
    if (!programs_[rank].operands[links_[at].operand].stable) continue;
    for (int32_t c = events_[links_[at].event].consumers; c >= 0; c = links_[c].next) {
      happenedBefore(links_[c].event);
    }
  }
}

std::string PieceProof::checkOrder() {
  for (const HappensBefore::Question& question : order_.unordered(mostWork_)) {
    const TracedMove& after = trace_[events_[question.after].move];
    if (question.subject <= kPosted) {
      const Link& posted = links_[kPosted - question.subject];
      unposted_[events_[posted.event].rank][posted.operand] = true;
      continue;
    }
    if (question.subject >= 0) {
      unstable_[events_[question.after].rank][question.subject] = true;
      continue;
    }
    return format("%s: %s block %d part %d while %s may be %s it", trace_.where(after).c_str(),
                  question.subject == kRead ? "reads" : "writes", block_, part_,
                  trace_.where(trace_[events_[question.before].move]).c_str(),
                  question.subject == kRead ? "writing" : "using");
  }
  return "";
}

/// A result can only have come of a complete sum (see combine), so its set need not be looked at again.
std::string PieceProof::checkOutputs(std::span<const int32_t> holders) {
  static constexpr const char* kStates[] = {"nothing", "raw values", "an unfinished reduction", "a result"};
  work_ += static_cast<int64_t>(holders.size());
  for (int32_t rank : holders) {
    for (int tile = 0; tile < tiles_; ++tile) {
      const Value& value = cell(rank, Space::output, tile).value;
      bool right = reducing_ ? value.state == kFinal : value == Value{shape_.origin(block_), kRaw};
      if (right) continue;
      return format("rank %d ends with %s in output block %d part %d tile %d, not what the collective asks for",
                    rank, kStates[value.state], block_, part_, tile);
    }
  }
  return "";
}

}  // namespace eccl::algorithms
