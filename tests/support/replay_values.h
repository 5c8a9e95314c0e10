// Programs replayed on random numbers, one per piece of data, to see what a schedule really does.
//
// Sums wrap modulo 2^64; scaling and finishing are such that leaving one out or doing it twice shows. Memory
// nobody has written holds garbage. What a reference is claimed for is read when the receiver takes it, and
// what is claimed posted is written when the message for it is sent. The expected outputs come from the
// collective's definition alone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "algorithms/builder/collective.h"
#include "algorithms/verify/abstract_executor.h"
#include "base/status.h"

namespace eccl::test {

/// The finalizer of MurmurHash3: every bit of the result depends on every bit of x.
inline uint64_t mixed(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ x >> 33;
}

struct ValuesOptions {
  uint64_t inPlace = 0;      // bit r: rank r's input and output are one buffer, where the API allows it
  bool byReference = false;  // stable operands are read when received, posted ones written when sent
  uint64_t seed = 1;
  algorithms::ExecutionSize size;  // of the AbstractExecutor this is a Domain of
};

class ReplayValues {
 public:
  /// One per part: a number, or where to read it.
  struct Payload {
    std::vector<uint64_t> numbers;
    std::vector<const uint64_t*> references;
    int scale = -1;  // what is read is scaled as this rank's contribution
  };

  ReplayValues(const std::vector<Program>& programs, ValuesOptions options)
      : programs_(programs),
        shape_{programs[0].collective, programs[0].ranks, programs[0].root},
        options_(std::move(options)) {
    for (const Program& program : programs_) {
      for (int space = 0; space < kMemorySpaces; ++space) {
        begin_.push_back(cells_.size());
        cells_.resize(cells_.size() +
                      static_cast<size_t>(program.maps[space].number) * program.parts * tiles());
      }
    }
    for (size_t i = 0; i < cells_.size(); ++i) cells_[i] = mixed(options_.seed + 0x9e3779b97f4a7c15ull * i);
    eachPiece(Space::input, [&](int rank, int block, int part, int tile) {
      *cell(rank, Space::input, block, part, tile) = contribution(rank, block, part, tile);
    });
    if (options_.byReference) listArrivals();
  }

  const char* execute(const algorithms::Move<Payload>& move) {
    for (const auto& destination : move.destinations()) {
      if (destination.message == nullptr) continue;
      destination.message->payload.numbers.assign(move.count, 0);
      destination.message->payload.references.assign(move.count, nullptr);
    }
    ahead_.clear();
    for (const auto& destination : move.destinations()) {
      if (destination.message != nullptr) ahead_.push_back(postedFor(move, *destination.operand));
    }
    for (int j = 0; j < move.count; ++j) {
      if (!isEmpty(move.block, move.part + j, move.tile)) movePart(move, j);
    }
    return nullptr;
  }
  void waited(const algorithms::LaneWait&) {}

  /// "" or the first output, or input, that is not what the collective's definition says.
  std::string check() {
    std::string wrong;
    auto compare = [&](Space space, int rank, int block, int part, int tile, uint64_t expected) {
      const uint64_t found = *cell(rank, space, block, part, tile);
      if (!wrong.empty() || found == expected) return;
      wrong = format("rank %d %s block %d part %d tile %d is %016llx, not %016llx", rank,
                     space == Space::input ? "input" : "output", block, part, tile,
                     static_cast<unsigned long long>(found), static_cast<unsigned long long>(expected));
    };
    eachPiece(Space::output, [&](int rank, int block, int part, int tile) {
      compare(Space::output, rank, block, part, tile, result(block, part, tile));
    });
    eachPiece(Space::input, [&](int rank, int block, int part, int tile) {
      if (aliased(rank, block)) return;
      compare(Space::input, rank, block, part, tile, contribution(rank, block, part, tile));
    });
    return wrong;
  }

 private:
  int tiles() const { return options_.size.tiles; }
  bool isEmpty(int block, int part, int tile) const {
    if (programs_[0].streams && options_.size.streamTiles) return tile >= options_.size.streamTiles(block);
    return options_.size.empty && options_.size.empty(block, part, tile);
  }
  bool aliased(int rank, int block) const {
    return (options_.inPlace >> rank & 1) != 0 && shape_.mayBeInPlace(rank) && shape_.aliased(rank, block);
  }

  template <class Visit>
  void eachPiece(Space space, Visit&& visit) {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      const BlockMap map = space == Space::input ? shape_.input(rank) : shape_.output(rank);
      for (int position = 0; position < map.number; ++position) {
        for (int part = 0; part < programs_[0].parts; ++part) {
          for (int tile = 0; tile < tiles(); ++tile) {
            if (!isEmpty(map.block(position), part, tile)) visit(rank, map.block(position), part, tile);
          }
        }
      }
    }
  }

  uint64_t* cell(int rank, Space space, int block, int part, int tile) {
    if (space == Space::input && aliased(rank, block)) space = Space::output;
    if (space == Space::scratch) tile = 0;  // used anew by each tile
    const size_t position = static_cast<size_t>(programs_[rank].map(space).position(block));
    const size_t first = begin_[static_cast<size_t>(rank) * kMemorySpaces + static_cast<size_t>(space)];
    return &cells_[first + (position * programs_[rank].parts + part) * tiles() + tile];
  }

  uint64_t contribution(int rank, int block, int part, int tile) const {
    uint64_t x = options_.seed;
    for (int coordinate : {rank, block, part, tile}) x = mixed(x * 31 + static_cast<uint64_t>(coordinate) + 1);
    return x;
  }
  /// Differs per rank, as PreMulSum's scalars do; twice is not once.
  uint64_t scaled(int rank, uint64_t x) const { return x * (2 * mixed(options_.seed ^ rank) + 1) + rank + 1; }
  static uint64_t finished(uint64_t x) { return mixed(x ^ 0x5bd1e995); }

  uint64_t result(int block, int part, int tile) const {
    if (!reduces(shape_.collective)) return contribution(shape_.origin(block), block, part, tile);
    uint64_t sum = 0;
    for (int rank = 0; rank < shape_.ranks; ++rank) sum += scaled(rank, contribution(rank, block, part, tile));
    return finished(sum);
  }

  void movePart(const algorithms::Move<Payload>& move, int j) {
    const int part = move.part + j;
    uint64_t sum = 0;
    for (const auto& source : move.sources()) {
      uint64_t value;
      if (source.message != nullptr) {
        const Payload& payload = source.message->payload;
        value = payload.numbers[j];
        if (payload.references[j] != nullptr) {
          value = *payload.references[j];
          if (payload.scale >= 0) value = scaled(payload.scale, value);
        }
      } else {
        value = *cell(move.rank, source.operand->space, move.block, part, move.tile);
      }
      sum += source.operand->pre ? scaled(move.rank, value) : value;
    }
    if (move.step->post) sum = finished(sum);
    const Operand& first = *move.sources()[0].operand;
    size_t sent = 0;
    for (const auto& destination : move.destinations()) {
      if (destination.message == nullptr) {
        *cell(move.rank, destination.operand->space, move.block, part, move.tile) = sum;
        continue;
      }
      const Ahead& ahead = ahead_[sent++];
      if (ahead.rank >= 0 && !first.stable) *cell(ahead.rank, ahead.space, move.block, part, move.tile) = sum;
      destination.message->payload.numbers[j] = sum;
      if (options_.byReference && first.stable) {
        destination.message->payload.references[j] = cell(move.rank, first.space, move.block, part, move.tile);
        destination.message->payload.scale = first.pre ? move.rank : -1;
      }
    }
  }

  /// A receive, in the order of a tile.
  struct Arrival {
    int32_t block, part, count;
    Space space;
    bool posted;
  };
  /// Where the sender writes; rank -1: nowhere.
  struct Ahead {
    int rank = -1;
    Space space = Space::output;
  };
  using Name = std::array<int, 4>;  // from, to, channel, tag

  void listArrivals() {
    for (const Program& program : programs_) {
      for (const Step& step : program.steps) {
        const Operand* operands = &program.operands[step.firstOperand];
        const Operand* first = step.destinations > 0 ? operands + step.sources : nullptr;
        const Operand* memory = nullptr;
        for (int i = 0; i < step.sources + step.destinations; ++i) {
          if (operands[i].space != Space::connection) memory = operands + i;
        }
        for (int repeat = 0; repeat < step.repeat; ++repeat) {
          for (int i = 0; i < step.sources && memory != nullptr; ++i) {
            if (operands[i].space != Space::connection) continue;
            const ConnectionSpec& spec = program.connections[operands[i].index.at(repeat)];
            arrivals_[{spec.peer, program.rank, spec.channel, spec.tag}].push_back(
                {memory->index.at(repeat), memory->part.at(repeat), memory->count,
                 first != nullptr ? first->space : Space::output, first != nullptr && first->posted});
          }
        }
      }
    }
  }

  /// The receive that the message of this move is for: as many before it in the tile have not been empty.
  Ahead postedFor(const algorithms::Move<Payload>& move, const Operand& destination) {
    if (!options_.byReference) return {};
    const ConnectionSpec& spec = programs_[move.rank].connections[destination.index.at(move.repeat)];
    const Name name = {move.rank, spec.peer, spec.channel, spec.tag};
    size_t before = sent_[{name, move.tile}]++;
    for (const Arrival& arrival : arrivals_[name]) {
      bool empty = true;
      for (int j = 0; j < arrival.count; ++j) empty &= isEmpty(arrival.block, arrival.part + j, move.tile);
      if (empty || before-- > 0) continue;
      return arrival.posted ? Ahead{spec.peer, arrival.space} : Ahead{};
    }
    return {};
  }

  const std::vector<Program>& programs_;
  const algorithms::CollectiveShape shape_;
  const ValuesOptions options_;
  std::map<Name, std::vector<Arrival>> arrivals_;
  std::map<std::pair<Name, int>, size_t> sent_;  // by connection and tile
  std::vector<Ahead> ahead_;                     // of the move under way, by message
  std::vector<size_t> begin_;                    // of each rank's spaces, in cells_
  std::vector<uint64_t> cells_;
};

}  // namespace eccl::test
