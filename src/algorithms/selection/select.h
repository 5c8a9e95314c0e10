// The selector: which algorithm carries out a call. It is a pure function of what every rank knows alike, so
// that all ranks choose the same without asking each other.
//
// One rank makes a table from the cost model when a communicator is made (selection_rules.h), and all ranks
// have it. The setting ECCL_ALGO overrides the table; its text is compared among ranks (it is a wire
// setting).
//
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithms/library/algorithm.h"
#include "base/status.h"

namespace eccl::algorithms {

/// How a call is carried out.
struct Choice {
  const Algorithm* algorithm = nullptr;  ///< of the static list; nullptr for Send and Recv, which have none
  int channels = 1;   ///< lanes and connections per neighbour, each with its part of the data
  uint64_t tile = 0;  ///< most bytes of a message; 0: what a slot holds (ECCL_SLOT_BYTES), or usualTile()
  bool operator==(const Choice&) const = default;
};
/// Ranks with more neighbours than this use up descriptors and memory: algorithms that need them are chosen
/// only where there is no other.
inline constexpr int kMaxNeighbours = 64;
inline constexpr int kMaxChannels = 64;
inline constexpr uint64_t kMinTile = 1024;  ///< bytes; shorter messages are all overhead

/// For calls of a collective with blocks of up to so many bytes.
struct SelectionRule {
  Collective collective = Collective::allReduce;
  size_t bytes = 0;
  Choice choice;
  bool operator==(const SelectionRule&) const = default;
};

/// What select() chooses by. A value; all ranks of a communicator have the same.
struct SelectionTable {
  std::array<const Algorithm*, kCollectives> forced{};  // by collective; nullptr: chosen by the rules
  int channels = 0;                                     // 0: chosen; of what is forced 1
  std::vector<SelectionRule> rules;  // the first that fits counts; without any, the first algorithm of the list
};

/// Reads ECCL_ALGO: `[collective:]name[,…]`, as in "ring" or "allreduce:tree,broadcast:chain".
///
/// Upper or lower case; blanks around words are ignored; an empty text forces nothing. A name without a
/// collective is for all collectives that have such an algorithm; an entry with a collective is stronger
/// than those wherever it stands; among equals the last one counts. An unknown name is an error
/// (invalidArgument) that lists what there is. Pure: does not log.
Result<SelectionTable> parseSelection(std::string_view text);

/// The choice for a call among `ranks` >= 1. `bytes` is the size of one block, the same on all ranks
/// (collective.h says what a block is): the vector of AllReduce, Broadcast and Reduce, one rank's
/// contribution to AllGather, one pair's message in AlltoAll. With different counts per rank it is the
/// largest block. It is ignored for AlltoAllv, whose counts no rank knows: there the number of ranks decides.
Choice select(Collective collective, size_t bytes, int ranks, const SelectionTable& table);

}  // namespace eccl::algorithms
