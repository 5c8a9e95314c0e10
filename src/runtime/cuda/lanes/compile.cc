#include "runtime/cuda/lanes/compile.h"

#include <algorithm>
#include <map>

namespace eccl::runtime::cuda::lanes {
namespace {

/// Strips begin at such bytes, so that whole elements and lines of sixteen bytes are in each.
constexpr uint64_t kGrain = 128;
/// A block is worth its start for so many bytes.
constexpr uint64_t kBytesPerBlock = 16 << 10;
/// So many bytes of a part one block has by lines: eight for each thread.
constexpr uint32_t kBytesByLines = kThreads * 8;
static_assert(kBytesByLines <= kLineBytes);

constexpr uint64_t roundUp(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

uint64_t longestPart(const PlanView& plan) {
  return plan.partition.longestPart(plan.blockElements) * plan.elementBytes;
}

class Compiler {
 public:
  Compiler(const Program& program, const PlanView& plan, uint32_t blocks)
      : program_(program), plan_(plan), blocks_(blocks) {}

  Result<Compiled> compile() {
    if (static_cast<uint64_t>(program_.messageParts) * kGrain > kSlotBytes) return tooMuch();
    layOut();
    for (const Lane& lane : program_.lanes) ECCL_TRY(addLane(lane));
    for (LanePlan& lane : made_.lane)
      for (uint32_t m = 0; m < lane.moves; ++m)
        if (const int32_t other = made_.moves[lane.firstMove + m].waitLane; other >= 0)
          made_.lane[static_cast<size_t>(other)].awaited = true;
    ECCL_TRY(share());
    made_.tells =
        std::min(made_.program.strip, longestPart(plan_)) >= kDirectBytes &&
        std::any_of(made_.lane.begin(), made_.lane.end(), [&](const LanePlan& lane) { return tells(lane); });
    if (made_.program.tiles == 1 && made_.program.served == 1) shorten();
    return std::move(made_);
  }

 private:
  bool pointToPoint() const {
    return program_.collective == Collective::send || program_.collective == Collective::receive;
  }

  /// Tiles and strips, from what all ranks know alike.
  void layOut() {
    BlockProgram& made = made_.program;
    made.lanes = static_cast<uint32_t>(program_.lanes.size());
    made.width = widthFor(program_, plan_, blocks_);
    const uint64_t longest = longestPart(plan_);
    // Of several pieces each begins at a line.
    const auto parts = static_cast<uint64_t>(program_.messageParts);
    const uint64_t most = std::max(kGrain, kSlotBytes / parts / kGrain * kGrain);
    const uint64_t tiles = std::max<uint64_t>(1, (longest + most * made.width - 1) / (most * made.width));
    made.strip = std::max(kGrain, roundUp((longest + tiles * made.width - 1) / (tiles * made.width), kGrain));
    made.tile = made.strip * made.width;
    made.tiles = static_cast<uint32_t>(longest > 0 ? (longest + made.tile - 1) / made.tile : pointToPoint());
    made.scratchPart = made.tile;
    made_.scratchBytes = static_cast<size_t>(program_.map(Space::scratch).number) *
                         static_cast<size_t>(program_.parts) * made.tile;
  }

  /// Moves of a lane up to the end of its step `step`.
  uint32_t movesUpTo(const Lane& lane, int32_t step) const {
    uint32_t moves = 0;
    for (int32_t s = 0; s <= step; ++s)
      moves += static_cast<uint32_t>(program_.steps[static_cast<size_t>(lane.firstStep + s)].repeat);
    return moves;
  }

  Status addLane(const Lane& lane) {
    LanePlan plan{};
    plan.firstMove = static_cast<uint32_t>(made_.moves.size());
    plan.firstOperand = static_cast<uint32_t>(made_.operands.size());
    plan.firstPiece = static_cast<uint32_t>(made_.pieces.size());
    plan.firstEnd = static_cast<uint32_t>(made_.ends.size());
    endOf_.clear();
    std::map<int32_t, uint32_t> messages;
    for (int32_t s = lane.firstStep; s < lane.firstStep + lane.steps; ++s) {
      const Step& step = program_.steps[static_cast<size_t>(s)];
      for (int32_t repeat = 0; repeat < step.repeat; ++repeat) {
        addMove(plan, step, repeat, messages);
        if (repeat > 0 || step.waitLane == kNoLane) continue;
        Move& move = made_.moves.back();
        move.waitLane = step.waitLane;
        move.waitMoves = movesUpTo(program_.lanes[static_cast<size_t>(step.waitLane)], step.waitStep);
        move.waitPrevious = step.waitPreviousTile;
      }
    }
    plan.moves = static_cast<uint32_t>(made_.moves.size()) - plan.firstMove;
    plan.operands = static_cast<uint32_t>(made_.operands.size()) - plan.firstOperand;
    plan.pieces = static_cast<uint32_t>(made_.pieces.size()) - plan.firstPiece;
    plan.ends = static_cast<uint32_t>(made_.ends.size()) - plan.firstEnd;
    uint32_t most = 1;
    for (const auto& [end, count] : messages) most = std::max(most, count);
    plan.ahead = std::max(2 * kSlots / most, 1u) - 1;
    plan.posts &= most <= 2 * kSlots;
    made_.lane.push_back(plan);
    for (uint32_t e = 0; e < plan.ends; ++e) {
      if (!used_.emplace(made_.ends[plan.firstEnd + e].connection, 0).second)
        return Status::error(Code::internal, "two lanes of a schedule share a connection; please report it");
    }
    return {};
  }

  void addMove(LanePlan& plan, const Step& step, int32_t repeat, std::map<int32_t, uint32_t>& messages) {
    Move move{};
    move.firstOperand = static_cast<uint32_t>(made_.operands.size()) - plan.firstOperand;
    move.firstPiece = static_cast<uint32_t>(made_.pieces.size()) - plan.firstPiece;
    move.sources = step.sources;
    move.destinations = step.destinations;
    move.post = step.post;
    move.waitLane = -1;
    move.relay = true;
    for (int o = 0; o < step.sources + step.destinations; ++o) {
      const Operand& operand = program_.operands[static_cast<size_t>(step.firstOperand + o)];
      BlockOperand made{};
      made.end = -1;
      made.space = operand.space;
      made.pre = operand.pre;
      made.stable = operand.stable;
      made.posted = operand.posted;
      if (operand.space == Space::connection) {
        made.end = static_cast<int16_t>(endOf(plan, operand.index.at(repeat)));
        if (o < step.sources) ++messages[made.end];
      } else {
        locate(operand, repeat, move, made);
        plan.posts |= operand.posted && o == step.sources;
      }
      made_.operands.push_back(made);
    }
    move.always = pointToPoint();
    made_.moves.push_back(move);
  }

  /// Where an operand in memory lies. The first one of a move tells its pieces.
  void locate(const Operand& operand, int32_t repeat, Move& move, BlockOperand& made) {
    const int32_t block = operand.index.at(repeat), part = operand.part.at(repeat);
    uint64_t elements = plan_.blockElements;
    if (operand.space == Space::scratch) {
      const int32_t position = program_.map(Space::scratch).position(block);
      made.at = static_cast<uint64_t>(position * program_.parts + part) * made_.program.scratchPart;
      if (plan_.extents[static_cast<int>(Space::scratch)] != nullptr)
        elements = plan_.extents[static_cast<int>(Space::scratch)][position].elements;
    } else {
      const BlockExtent extent = plan_.extent(operand.space, block);
      made.at = extent.offset * plan_.elementBytes;
      elements = extent.elements;
    }
    if (!move.relay) return;
    move.relay = false;
    for (int32_t p = part; p < part + operand.count; ++p) {
      const uint64_t begin = plan_.partition.partBegin(elements, p),
                     end = plan_.partition.partBegin(elements, p + 1);
      made_.pieces.push_back({begin * plan_.elementBytes, (end - begin) * plan_.elementBytes});
    }
    move.pieces = static_cast<uint32_t>(operand.count);
  }

  int32_t endOf(const LanePlan& plan, int32_t connection) {
    const auto [at, isNew] =
        endOf_.try_emplace(connection, static_cast<int32_t>(made_.ends.size() - plan.firstEnd));
    if (isNew) {
      const bool sends = program_.connections[static_cast<size_t>(connection)].sends;
      made_.ends.push_back({nullptr, connection, 0, !sends});
    }
    return at->second;
  }

  /// Whether a message of the lane may refer to memory or have a place in it.
  bool tells(const LanePlan& lane) const {
    for (uint32_t m = 0; m < lane.moves; ++m) {
      const Move& move = made_.moves[lane.firstMove + m];
      const BlockOperand* const operands = &made_.operands[lane.firstOperand + move.firstOperand];
      if (move.relay || move.pieces != 1 || move.sources != 1 || move.destinations == 0) continue;
      if (operands[0].end < 0 ? operands[0].stable : operands[1].posted) return true;
    }
    return false;
  }

  /// How many strips of lanes each block serves.
  Status share() {
    BlockProgram& made = made_.program;
    const uint32_t strips = made.lanes * made.width;
    made.served = std::max(1u, (strips + blocks_ - 1) / blocks_);
    made_.blocks = (strips + made.served - 1) / made.served;
    for (uint32_t first = 0; first < strips; first += made.served) {
      uint32_t ends = 0;
      for (uint32_t v = first; v < std::min(strips, first + made.served); ++v)
        ends += made_.lane[v % made.lanes].ends;
      if (made.served <= kMaxServed && ends <= kMaxEnds) continue;
      return tooMuch();
    }
    return {};
  }

  /// Bytes of a strip of a piece that has so many, if there is one tile.
  uint64_t inStrip(uint64_t bytes, uint32_t strip) const {
    const uint64_t begin = strip * made_.program.strip;
    return std::min(bytes, begin + made_.program.strip) - std::min(bytes, begin);
  }
  /// Bytes of a strip's message, or of the longest that may be passed on.
  uint64_t lengthOf(const LanePlan& lane, const Move& move, uint32_t strip) const {
    const auto ofPart = [](uint64_t bytes) { return roundUp(bytes, 16); };
    if (move.relay)
      return static_cast<uint64_t>(program_.messageParts) * ofPart(inStrip(longestPart(plan_), strip));
    uint64_t length = 0;
    for (uint32_t p = 0; p < move.pieces; ++p) {
      const uint64_t share = inStrip(made_.pieces[lane.firstPiece + move.firstPiece + p].length, strip);
      length += move.pieces == 1 ? share : ofPart(share);
    }
    return length;
  }

  /// Of its first strip, which no other is longer than.
  uint32_t longestPiece(const LanePlan& lane, const Move& move) const {
    uint64_t longest = move.relay ? lengthOf(lane, move, 0) : 0;
    for (uint32_t p = 0; p < move.pieces; ++p)
      longest = std::max(longest, inStrip(made_.pieces[lane.firstPiece + move.firstPiece + p].length, 0));
    return static_cast<uint32_t>(move.pieces > 1 ? roundUp(longest, 16) : longest);
  }

  /// Makes it a short program, if lines can carry all its messages and their slots hold those of a call at
  /// once.
  void shorten() {
    Compiled made = made_;
    made.isShort = true;
    made.moves.clear();
    made.operands.clear();
    for (LanePlan& lane : made.lane) {
      const LanePlan from = lane;
      lane.firstMove = static_cast<uint32_t>(made.moves.size());
      lane.firstOperand = static_cast<uint32_t>(made.operands.size());
      for (uint32_t m = 0; m < from.moves; ++m) {
        Move move = made_.moves[from.firstMove + m];
        const uint64_t length = lengthOf(from, move, 0);
        if (length == 0 && !move.always) continue;
        // All strips have the moves of the first.
        const bool all = length == 0 || lengthOf(from, move, made.program.width - 1) > 0;
        if (!all || length > kLineBytes || move.waitLane >= 0) return;
        const BlockOperand* const operands = &made_.operands[from.firstOperand + move.firstOperand];
        move.length = static_cast<uint32_t>(length);
        move.firstOperand = static_cast<uint32_t>(made.operands.size()) - lane.firstOperand;
        for (uint32_t o = 0; o < uint32_t{move.sources} + move.destinations; ++o) {
          made.operands.push_back(operands[o]);
          if (operands[o].end < 0) continue;
          const uint16_t ordinal = made.ends[lane.firstEnd + static_cast<uint32_t>(operands[o].end)].messages++;
          if (ordinal >= kSlots) return;
          made.operands.back().ordinal = ordinal;
        }
        lane.longest = std::max(lane.longest, longestPiece(lane, move));
        made.moves.push_back(move);
      }
      lane.moves = static_cast<uint32_t>(made.moves.size()) - lane.firstMove;
      lane.operands = static_cast<uint32_t>(made.operands.size()) - lane.firstOperand;
    }
    if (made.bytesInBlock() <= sizeof(BlockProgram) + kListBytes) made_ = std::move(made);
  }

  Status tooMuch() const {
    return Status::error(
        Code::internal,
        "a schedule of %zu lanes for %d ranks is more than %u blocks of a GPU can serve; please "
        "report it, and set ECCL_CUDA_LANES=0",
        program_.lanes.size(), program_.ranks, blocks_);
  }

  const Program& program_;
  const PlanView& plan_;
  const uint32_t blocks_;
  Compiled made_;
  std::map<int32_t, int32_t> endOf_;  // of the present lane, by connection
  std::map<int32_t, int> used_;
};

}  // namespace

// A group may have a Send and a Recv for each rank, which are there at once.
uint32_t mostStripsOfPair(int ranks, uint32_t blocks) {
  return std::max(1u, blocks / (2 * static_cast<uint32_t>(ranks)));
}

uint32_t widthFor(const Program& program, const PlanView& plan, uint32_t blocks) {
  const uint64_t longest = longestPart(plan);
  uint64_t bySize = (longest + kBytesPerBlock - 1) / kBytesPerBlock;
  // No schedule of ours has more lanes of a channel than two for each rank, and a block serves so many.
  const auto lanes = static_cast<uint64_t>(program.channels) * std::max(3, 2 * program.ranks);
  // By lines, if half of the blocks are enough: others may be for other calls of a group. Else by slots.
  const uint64_t byLines = kBytesByLines / static_cast<uint64_t>(program.messageParts) / kGrain * kGrain;
  const uint64_t strips = byLines == 0 ? UINT64_MAX : (longest + byLines - 1) / byLines;
  if (strips <= std::max<uint64_t>(1, blocks / 2 / lanes)) bySize = strips;
  const bool pair = program.collective == Collective::send || program.collective == Collective::receive;
  if (program.connections.empty()) return std::max(1u, blocks / 8);  // a copy, of which a group may have others
  const uint64_t byLanes =
      pair ? mostStripsOfPair(program.ranks, blocks) : uint64_t{kMaxServed} * blocks / lanes;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(bySize, 1, std::max<uint64_t>(1, std::min<uint64_t>(blocks, byLanes))));
}

Result<Compiled> compile(const Program& program, const PlanView& plan, uint32_t blocks) {
  return Compiler(program, plan, blocks).compile();
}

}  // namespace eccl::runtime::cuda::lanes
