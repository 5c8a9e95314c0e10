// The verifier: structure, then control with growing numbers of slots until nothing deadlocks, then one
// traced run and the proof of each piece.
#include "algorithms/verify/verify.h"

#include <algorithm>
#include <set>

#include "algorithms/verify/abstract_executor.h"
#include "algorithms/verify/piece_proof.h"
#include "algorithms/verify/trace.h"

namespace eccl::algorithms {
namespace {

/// A Domain without data: only control is run, and moves are counted.
struct Control {
  struct Payload {};
  int64_t moves = 0;
  const char* execute(const Move<Payload>&) { return ++moves, nullptr; }
  void waited(const LaneWait&) const {}
};

/// What would take too long, before anything is expanded; "" if nothing.
std::string tooLarge(const std::vector<Program>& programs, const VerifyLimits& limits) {
  int64_t moves = 0;
  for (const Program& program : programs) {
    for (const Step& step : program.steps) moves += std::max(step.repeat, 1);
  }
  if (moves <= limits.moves) return "";
  return format("%lld moves are more than the %lld that would be verified", static_cast<long long>(moves),
                static_cast<long long>(limits.moves));
}

/// For each block the ranks whose output has it.
class Holders {
 public:
  Holders(const CollectiveShape& shape) : begin_(static_cast<size_t>(shape.blocks()) + 1, 0) {
    auto each = [&](auto&& visit) {
      for (int rank = 0; rank < shape.ranks; ++rank) {
        const BlockMap map = shape.output(rank);
        for (int position = 0; position < map.number; ++position) visit(rank, map.block(position));
      }
    };
    each([&](int, int block) { ++begin_[block + 1]; });
    for (size_t block = 1; block < begin_.size(); ++block) begin_[block] += begin_[block - 1];
    ranks_.resize(begin_.back());
    std::vector<int32_t> free(begin_);
    each([&](int rank, int block) { ranks_[free[block]++] = rank; });
  }
  std::span<const int32_t> operator[](int block) const {
    return {ranks_.data() + begin_[block], ranks_.data() + begin_[block + 1]};
  }

 private:
  std::vector<int32_t> begin_, ranks_;
};

/// Pieces of the communicator and of all outputs.
int64_t piecesOf(const CollectiveShape& shape, int parts) {
  int64_t blocks = shape.blocks();
  for (int rank = 0; rank < shape.ranks; ++rank) blocks += shape.output(rank).number;
  return blocks * parts;
}

/// Finds the least number of slots that every number of tiles can be run with.
/// More slots never hurt, so the first number that works is the least. A failure that is no deadlock is final:
/// it would come up with any number.
void runControl(const std::vector<Program>& programs, const VerifyLimits& limits, Verdict& verdict) {
  for (int slots = 1; slots <= kMaxSlots; ++slots) {
    bool deadlocked = false;
    for (int tiles : std::set<int>{1, 2, slots + 1}) {
      Control control;
      AbstractExecutor<Control> executor(programs, control, {tiles, slots});
      verdict.reason = executor.runFair(limits.work);
      verdict.gaveUp = executor.gaveUp();
      if (tiles == 1) verdict.moves = control.moves;
      deadlocked = executor.deadlocked();
      if (!verdict.reason.empty()) break;
    }
    verdict.minSlots = slots;
    if (!deadlocked) return;
  }
}

/// Which memory may be handed out, and whether the claims are among that.
void judgeReferences(const std::vector<Program>& programs, const PieceProof& proof, Verdict& verdict) {
  for (const Program& program : programs) {
    for (const Step& step : program.steps) {
      if (step.sources > 1 || step.post) continue;  // and nothing is claimed
      const int32_t source = step.firstOperand, first = source + 1;
      const Operand* operands = program.operands.data();
      const bool fromMemory = operands[source].space != Space::connection;
      bool sends = false;
      for (int i = 0; i < step.destinations; ++i) sends |= operands[first + i].space == Space::connection;
      const auto wrong = [&](const char* claim) {
        verdict.reason = format("rank %d step %d claims its %s", program.rank,
                                static_cast<int>(&step - program.steps.data()), claim);
      };
      if (sends && fromMemory && !proof.unstable()[program.rank][source]) {
        verdict.stable.emplace_back(program.rank, source);
      } else if (operands[source].stable) {
        return wrong("source stable, but that may be written before the receiver has read it");
      }
      if (step.destinations == 0 || fromMemory || program.streams) continue;
      // Scratch is used anew by each tile, and places are posted some tiles ahead.
      const bool userMemory = operands[first].space == Space::input || operands[first].space == Space::output;
      if (userMemory && !proof.unposted()[program.rank][first]) {
        verdict.posted.emplace_back(program.rank, first);
      } else if (operands[first].posted) {
        return wrong("destination posted, but that may be in use when the message for it is sent");
      }
    }
  }
}

/// Proves what the Programs do to data.
void followData(const std::vector<Program>& programs, bool inPlace, const VerifyLimits& limits,
                Verdict& verdict) {
  // Tiles meet in scratch only, and there each follows the one before.
  bool scratch = std::any_of(programs.begin(), programs.end(),
                             [](const Program& program) { return program.map(Space::scratch).number > 0; });
  const int tiles = scratch ? 2 : 1;
  Trace trace(programs, limits.moves);
  AbstractExecutor<Trace> executor(programs, trace, {tiles, verdict.minSlots});
  verdict.reason = executor.runFair();
  verdict.gaveUp = trace.full();
  if (!verdict.reason.empty()) return;

  const Program& first = programs[0];
  const CollectiveShape shape{first.collective, first.ranks, first.root};
  const int blocks = shape.blocks();
  Holders holders(shape);
  Trace::ByPiece byPiece(trace, blocks * first.parts);
  PieceProof proof(programs, inPlace, tiles, trace, limits.work);
  for (int block = 0; block < blocks; ++block) {
    for (int part = 0; part < first.parts; ++part) {
      verdict.reason = proof.prove(block, part, byPiece[block * first.parts + part], holders[block]);
      verdict.gaveUp = proof.gaveUp();
      if (!verdict.reason.empty()) return;
    }
  }
  judgeReferences(programs, proof, verdict);
}

}  // namespace

Verdict verify(const std::vector<Program>& programs, bool inPlace, const VerifyLimits& limits) {
  Verdict verdict;
  verdict.reason = tooLarge(programs, limits);
  verdict.gaveUp = !verdict.reason.empty();
  if (verdict.reason.empty()) verdict.reason = verifyStructure(programs);
  if (!verdict.reason.empty()) return verdict;
  const Program& first = programs[0];
  int64_t pieces = piecesOf({first.collective, first.ranks, first.root}, first.parts);
  if (pieces > limits.pieces) {
    verdict.gaveUp = true;
    verdict.reason = format("%lld pieces of data are more than the %lld that would be verified",
                            static_cast<long long>(pieces), static_cast<long long>(limits.pieces));
    return verdict;
  }
  runControl(programs, limits, verdict);
  if (verdict.reason.empty()) followData(programs, inPlace, limits, verdict);
  verdict.ok = verdict.reason.empty();
  return verdict;
}

}  // namespace eccl::algorithms
