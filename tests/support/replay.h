// The executor tests' oracle: Programs replayed move by move in typed memory, with the reference kernels.
//
// It shares with the executor the Program, the Partition of its blocks, and nothing else: no slots, no
// pointers into messages, no interpreter. Since it makes the same moves, its results are the executor's bit by
// bit, whatever the rounding.
#pragma once

#include <cstring>
#include <vector>

#include "algorithms/verify/abstract_executor.h"
#include "kernels/reduce.h"
#include "program/plan_view.h"

namespace eccl::test {

/// What one rank's buffers hold, and how they are cut.
struct ReplayRank {
  std::vector<std::byte> buffers[kMemorySpaces];
  std::vector<BlockExtent> extents[kMemorySpaces];  // by position
  kernels::Scale pre, post;
};

/// A Domain for AbstractExecutor.
class Replay {
 public:
  struct Payload {
    std::vector<std::vector<std::byte>> parts;
  };

  Replay(const std::vector<Program>& programs, std::vector<ReplayRank>& ranks, Partition partition,
         DataType type, RedOp op)
      : programs_(programs), ranks_(ranks), partition_(partition), type_(type), op_(op) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const BlockMap& scratch = programs[rank].map(Space::scratch);
      ranks[rank].buffers[static_cast<int>(Space::scratch)].resize(static_cast<size_t>(scratch.number) *
                                                                   static_cast<size_t>(partition.parts) *
                                                                   partition.tile * sizeOf(type));
    }
  }

  const char* execute(const algorithms::Move<Payload>& move) {
    for (const auto& term : move.destinations()) {
      if (term.message != nullptr) term.message->payload.parts.assign(static_cast<size_t>(move.count), {});
    }
    for (int j = 0; j < move.count && !move.empty; ++j) {
      kernels::ReduceTask task;
      task.type = type_;
      task.op = op_;
      task.count = elements(move, j);
      for (const auto& term : move.sources()) {
        if (term.operand->pre) task.pre[task.sources] = ranks_[static_cast<size_t>(move.rank)].pre;
        task.source[task.sources++] = term.message != nullptr
                                          ? term.message->payload.parts[static_cast<size_t>(j)].data()
                                          : memory(move, *term.operand, j);
      }
      if (move.step->post) task.post = ranks_[static_cast<size_t>(move.rank)].post;
      for (const auto& term : move.destinations()) {
        std::byte* to;
        if (term.message != nullptr) {
          auto& part = term.message->payload.parts[static_cast<size_t>(j)];
          part.resize(task.count * sizeOf(type_));
          to = part.data();
        } else {
          to = memory(move, *term.operand, j);
        }
        task.destination[task.destinations++] = to;
      }
      if (task.count > 0 && task.destinations > 0) kernels::reduceReference(task);
    }
    return nullptr;
  }
  void waited(const algorithms::LaneWait&) {}

 private:
  BlockExtent extent(const algorithms::Move<Payload>& move) const {
    const Program& program = programs_[static_cast<size_t>(move.rank)];
    const ReplayRank& rank = ranks_[static_cast<size_t>(move.rank)];
    for (Space space : {Space::input, Space::output}) {
      int32_t position = program.map(space).position(move.block);
      if (position >= 0) return rank.extents[static_cast<int>(space)][static_cast<size_t>(position)];
    }
    for (const ReplayRank& other : ranks_) {  // a relay holds it in neither: the size is the sender's
      size_t at = static_cast<size_t>(&other - ranks_.data());
      int32_t position = programs_[at].map(Space::input).position(move.block);
      if (position >= 0) return other.extents[static_cast<int>(Space::input)][static_cast<size_t>(position)];
    }
    return {0, 0};
  }
  Slice slice(const algorithms::Move<Payload>& move, int j) const {
    return partition_.slice(extent(move).elements, move.part + j, static_cast<uint64_t>(move.tile));
  }
  size_t elements(const algorithms::Move<Payload>& move, int j) const { return slice(move, j).size(); }

  std::byte* memory(const algorithms::Move<Payload>& move, const Operand& operand, int j) {
    const Program& program = programs_[static_cast<size_t>(move.rank)];
    ReplayRank& rank = ranks_[static_cast<size_t>(move.rank)];
    int space = static_cast<int>(operand.space);
    int32_t position = program.map(operand.space).position(move.block);
    uint64_t element;
    if (operand.space == Space::scratch) {
      element = (static_cast<uint64_t>(position) * static_cast<uint64_t>(partition_.parts) +
                 static_cast<uint64_t>(move.part + j)) *
                partition_.tile;
    } else {
      element = rank.extents[space][static_cast<size_t>(position)].offset + slice(move, j).begin;
    }
    return rank.buffers[space].data() + element * sizeOf(type_);
  }

  const std::vector<Program>& programs_;
  std::vector<ReplayRank>& ranks_;
  const Partition partition_;
  const DataType type_;
  const RedOp op_;
};

}  // namespace eccl::test
