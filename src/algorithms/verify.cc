#include "algorithms/verify.h"

#include <algorithm>
#include <set>

#include "algorithms/happens_before.h"
#include "algorithms/machine.h"
#include "algorithms/rank_sets.h"

namespace eccl {
namespace {

/// What became of a value: contributions as the user passed them, scaled, finished.
enum State : uint8_t { kNothing, kRaw, kScaled, kFinal };

struct Value {
  uint32_t set : 30 = 0;  // of RankSets
  uint32_t state : 2 = kNothing;
};

/// The Domain of the proof. A cell is one part of one block in one tile of one rank's buffer and holds the
/// set of ranks whose contribution to that part it contains.
class Contributions {
 public:
  struct Payload {
    std::vector<Value> values;  // one per part
    Timestamp clock;
    std::vector<int32_t> exposures;
  };
  using M = Move<Payload>;

  /// `ordering`: also prove that conflicting accesses are ordered, and find the unstable operands.
  Contributions(const std::vector<Program>& programs, const CollectiveShape& shape, RankSets& sets,
                bool inPlace, int tiles, bool ordering, std::vector<std::vector<bool>>& unstable)
      : programs_(programs),
        shape_(shape),
        sets_(sets),
        inPlace_(inPlace),
        tiles_(tiles),
        ordering_(ordering),
        reducing_(reduces(shape.collective)),
        unstable_(unstable),
        lanes_(layOut()),
        order_(ordering ? lanes_ : 0, ordering ? cells_ : 0) {
    values_.resize(cells_);
    if (ordering_) findWaited();
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const BlockMap map = shape_.input(rank);
      for (int position = 0; position < map.number; ++position) {
        for (int part = 0; part < programs_[0].parts; ++part) {
          for (int tile = 0; tile < tiles_; ++tile) {
            values_[cell(rank, Space::input, map.block(position), part, tile)] = {sets_.single(rank), kRaw};
          }
        }
      }
    }
  }

  std::string execute(const M& move) {
    if (ordering_) joinSources(move);
    // Values are combined per part; a destination may be the source it was made from.
    for (int i = 0; i < move.destinations; ++i) {
      if (Message<Payload>* message = move.destination[i].message) {
        message->payload.values.resize(move.empty ? 0 : move.count);
        message->payload.exposures.clear();
      }
    }
    for (int j = 0; j < move.count && !move.empty; ++j) {
      Value value;
      if (const char* wrong = combine(move, j, value)) return wrong;
      if (const char* wrong = deliver(move, j, value)) return wrong;
    }
    if (ordering_) finishClocks(move);
    return "";
  }

  void waited(int lane, int onLane, int step, int tile) {
    if (!ordering_) return;
    auto at = snapshots_.find({onLane, step});
    if (at != snapshots_.end()) order_.join(lane, at->second[tile % 2]);
  }

  /// "" if every output block holds exactly what the collective asks for.
  std::string checkOutputs(const std::function<int(int)>& streamTiles) const {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const BlockMap map = shape_.output(rank);
      for (int position = 0; position < map.number; ++position) {
        int block = map.block(position);
        int tiles = streamTiles ? streamTiles(block) : tiles_;
        for (int part = 0; part < programs_[0].parts; ++part) {
          for (int tile = 0; tile < tiles; ++tile) {
            if (std::string wrong = checkCell(rank, block, part, tile); !wrong.empty()) return wrong;
          }
        }
      }
    }
    return "";
  }

 private:
  /// Places all buffers in one array of cells; returns the number of lanes.
  int layOut() {
    int lanes = 0;
    base_.resize(programs_.size());
    const size_t parts = programs_[0].parts;
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      lanes += static_cast<int>(programs_[rank].lanes.size());
      for (int space = 0; space < kMemorySpaces; ++space) {
        base_[rank][space] = cells_;
        int copies =
            static_cast<Space>(space) == Space::scratch ? 1 : tiles_;  // scratch is used anew by each tile
        cells_ += parts * programs_[rank].maps[space].number * copies;
      }
    }
    return lanes;
  }

  size_t cell(int rank, Space space, int block, int part, int tile) const {
    if (space == Space::input && inPlace_ && shape_.mayBeInPlace(rank) && shape_.aliased(rank, block)) {
      space = Space::output;
    }
    const Program& program = programs_[rank];
    size_t index = static_cast<size_t>(program.map(space).position(block)) * program.parts + part;
    size_t at = base_[rank][static_cast<int>(space)];
    return space == Space::scratch ? at + index : at + index * tiles_ + tile;
  }

  void findWaited() {
    int lane = 0;
    for (const Program& program : programs_) {
      for (const Step& step : program.steps) {
        if (step.waitLane != kNoLane) snapshots_[{lane + step.waitLane, step.waitStep}];
      }
      lane += static_cast<int>(program.lanes.size());
    }
  }

  void joinSources(const M& move) {
    order_.tick(move.lane);
    for (int i = 0; i < move.sources; ++i) {
      if (Message<Payload>* message = move.source[i].message) order_.join(move.lane, message->payload.clock);
    }
  }

  const char* combine(const M& move, int j, Value& value) {
    for (int i = 0; i < move.sources; ++i) {
      Value from;
      if (Message<Payload>* message = move.source[i].message) {
        from = message->payload.values[j];
      } else {
        size_t at = cell(move.rank, move.source[i].operand->space, move.block, move.part + j, move.tile);
        if (ordering_ && !order_.read(move.lane, at))
          return "reads memory while another lane may be writing it";
        from = values_[at];
      }
      if (from.state == kNothing) return "reads memory that nothing was put into";
      if (move.source[i].operand->pre) {
        if (from.state != kRaw) return "scales a value that is not a raw contribution";
        from.state = kScaled;
      }
      if (move.sources > 1 && from.state != kScaled) return "combines values that are not scaled contributions";
      uint32_t both = sets_.unite(value.set, from.set);
      if (both == RankSets::kOverlap) return "adds one contribution twice";
      value.set = both;
      value.state = from.state;
    }
    if (move.step->post) {
      if (value.state != kScaled) return "finishes a value that is not a sum of scaled contributions";
      if (value.set != sets_.all()) return "finishes an incomplete sum";
      value.state = kFinal;
    }
    return nullptr;
  }

  const char* deliver(const M& move, int j, Value value) {
    for (int i = 0; i < move.destinations; ++i) {
      if (Message<Payload>* message = move.destination[i].message) {
        message->payload.values[j] = value;
        if (ordering_) expose(move, j, *message);
        continue;
      }
      size_t at = cell(move.rank, move.destination[i].operand->space, move.block, move.part + j, move.tile);
      for (int k = 0; k < i; ++k) {
        const auto& other = move.destination[k];
        if (other.message == nullptr &&
            cell(move.rank, other.operand->space, move.block, move.part + j, move.tile) == at) {
          return "writes one place twice in a step";
        }
      }
      if (ordering_ && !copyOntoItself(move, j, at)) {
        auto& unstable = unstable_[move.rank];
        if (!order_.write(move.lane, at, [&](int32_t operand) { unstable[operand] = true; })) {
          return "writes memory while another lane may be using it";
        }
      }
      values_[at] = value;
    }
    return nullptr;
  }

  /// In place, executors skip a copy of a place onto itself: no write happens.
  bool copyOntoItself(const M& move, int j, size_t at) const {
    const Term<Payload>& source = move.source[0];
    return !reducing_ && source.message == nullptr &&
           cell(move.rank, source.operand->space, move.block, move.part + j, move.tile) == at;
  }

  /// A message made of one piece of memory could have been a reference to it: watch what happens to it.
  void expose(const M& move, int j, Message<Payload>& message) {
    const Term<Payload>& source = move.source[0];
    if (move.sources != 1 || source.message != nullptr || move.step->post) return;
    size_t at = cell(move.rank, source.operand->space, move.block, move.part + j, move.tile);
    int32_t operand = static_cast<int32_t>(source.operand - programs_[move.rank].operands.data());
    message.payload.exposures.push_back(order_.expose(at, operand));
  }

  void finishClocks(const M& move) {
    for (int i = 0; i < move.sources; ++i) {
      if (Message<Payload>* message = move.source[i].message) {
        for (int32_t handle : message->payload.exposures) order_.consumed(move.lane, handle);
      }
    }
    for (int i = 0; i < move.destinations; ++i) {
      if (Message<Payload>* message = move.destination[i].message)
        message->payload.clock = order_.now(move.lane);
    }
    if (snapshots_.empty()) return;
    auto at = snapshots_.find({move.lane, move.stepInLane});  // the last repetition's stays
    if (at != snapshots_.end()) at->second[move.tile % 2] = order_.now(move.lane);
  }

  std::string checkCell(int rank, int block, int part, int tile) const {
    Value value = values_[cell(rank, Space::output, block, part, tile)];
    bool right = reducing_ ? value.state == kFinal && value.set == sets_.all()
                           : value.state == kRaw && value.set == sets_.single(shape_.origin(block));
    if (right) return "";
    static constexpr const char* states[] = {"nothing", "raw values", "an unfinished reduction", "a result"};
    return format("rank %d ends with %s of the wrong contributions in output block %d part %d tile %d", rank,
                  states[value.state], block, part, tile);
  }

  const std::vector<Program>& programs_;
  const CollectiveShape shape_;
  RankSets& sets_;
  const bool inPlace_;
  const int tiles_;
  const bool ordering_;
  const bool reducing_;
  std::vector<std::vector<bool>>& unstable_;  // rank, operand
  std::vector<std::array<size_t, kMemorySpaces>> base_;
  size_t cells_ = 0;
  const int lanes_;  // set by layOut(), which counts cells_
  HappensBefore order_;
  std::vector<Value> values_;
  std::map<std::pair<int, int>, std::array<Timestamp, 2>> snapshots_;  // lane, step → clocks of two tiles
};

struct Attempt {
  std::string wrong;
  bool deadlock = false;
};

Attempt attempt(const std::vector<Program>& programs, const CollectiveShape& shape, RankSets& sets,
                bool inPlace, MachineSize size, std::vector<std::vector<bool>>& unstable) {
  int tiles = size.tiles;
  auto streamTiles = size.streamTiles;
  // The first tiles of a longer run do what a shorter run does, in the same order: the longest run's ordering
  // covers the others.
  bool ordering = tiles == size.slots + 1;
  Contributions domain(programs, shape, sets, inPlace, tiles, ordering, unstable);
  Machine<Contributions> machine(programs, domain, std::move(size));
  Attempt result;
  result.wrong = machine.runFair();
  if (!result.wrong.empty()) {
    result.deadlock = machine.deadlocked();
    return result;
  }
  result.wrong = domain.checkOutputs(streamTiles);
  return result;
}

/// The lengths a stream schedule is tried with: all one tile, then mixtures with empty blocks.
std::vector<std::function<int(int)>> streamLengths(int tiles) {
  std::vector<std::function<int(int)>> lengths;
  lengths.push_back([tiles](int) { return tiles; });
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    lengths.push_back([tiles, seed](int block) {
      uint32_t x =
          (static_cast<uint32_t>(block) + 1) * 2654435761u ^ seed * 0x9e3779b9u;  // Knuth's multiplicative hash
      return static_cast<int>((x >> 13) % static_cast<uint32_t>(tiles + 1));
    });
  }
  return lengths;
}

}  // namespace

Verdict verify(const std::vector<Program>& programs, bool inPlace) {
  Verdict verdict;
  verdict.reason = verifyStructure(programs);
  if (!verdict.reason.empty()) return verdict;
  const Program& first = programs[0];
  CollectiveShape shape{first.collective, first.ranks, first.root};
  RankSets sets(shape.ranks);
  std::vector<std::vector<bool>> unstable(programs.size());
  for (size_t rank = 0; rank < programs.size(); ++rank) unstable[rank].resize(programs[rank].operands.size());

  for (int slots = 1; slots <= kMostSlots; ++slots) {
    Attempt last;
    std::set<int> tileCounts = {1, 2, slots + 1};
    for (int tiles : tileCounts) {
      auto lengths = first.streams ? streamLengths(tiles) : std::vector<std::function<int(int)>>{nullptr};
      for (auto& length : lengths) {
        last = attempt(programs, shape, sets, inPlace, {tiles, slots, length}, unstable);
        if (!last.wrong.empty()) break;
      }
      if (!last.wrong.empty()) break;
    }
    if (last.deadlock && slots < kMostSlots) continue;
    verdict.reason = last.wrong;
    verdict.minSlots = slots;
    break;
  }
  if (!verdict.reason.empty()) return verdict;

  for (size_t rank = 0; rank < programs.size(); ++rank) {
    const Program& program = programs[rank];
    for (const Step& step : program.steps) {
      const Operand& operand = program.operands[step.firstOperand];
      bool toConnection = false;
      for (int i = 0; i < step.destinations; ++i) {
        toConnection |= program.operands[step.firstOperand + step.sources + i].space == Space::connection;
      }
      bool candidate = step.sources == 1 && operand.space != Space::connection && !step.post && toConnection;
      if (candidate && !unstable[rank][step.firstOperand]) {
        verdict.stable.emplace_back(static_cast<int>(rank), step.firstOperand);
      } else if (operand.stable) {
        verdict.reason =
            format("rank %zu claims operand %d stable, but it may be written before the receiver has read it",
                   rank, step.firstOperand);
        return verdict;
      }
    }
  }
  verdict.ok = true;
  return verdict;
}

}  // namespace eccl
