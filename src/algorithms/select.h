// Which algorithm carries out a call: a pure function of what every rank knows alike, so that all ranks
// choose the same without asking each other.
//
// By a table that one rank makes from the cost model when a communicator is made (selection_rules.h) and all
// have, unless the setting ECCL_ALGO says otherwise. Its text is compared among ranks (it is a wire setting).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "algorithms/algorithm.h"
#include "base/status.h"

namespace eccl {

struct Choice {
  const Algorithm* algorithm;  // of the static list; nullptr for Send and Recv, which have none
  int channels;
};

/// For calls of a collective with blocks of up to so many bytes.
struct SelectionRule {
  Collective collective = Collective::allReduce;
  size_t bytes = 0;
  const Algorithm* algorithm = nullptr;
  bool operator==(const SelectionRule&) const = default;
};

/// A value.
struct SelectionTable {
  std::array<const Algorithm*, kCollectives> forced{};  // by collective; nullptr: chosen by the rules
  int channels = 0;                                     // 0: chosen
  std::vector<SelectionRule> rules;  // the first that fits counts; without any, the first algorithm of the list
};

/// Reads ECCL_ALGO: `[collective:]name[,…]`, as in "ring" or "allreduce:tree,broadcast:chain".
///
/// Upper or lower case; blanks around words are ignored; an empty text forces nothing. A name without a
/// collective is for all collectives that have such an algorithm; an entry with a collective is stronger
/// than those wherever it stands; among equals the last one counts. An unknown name is an error
/// (invalidArgument) that lists what there is. Pure: does not log.
Result<SelectionTable> parseSelection(std::string_view text);

/// `bytes`: the size of one block, the same on all ranks (collective.h says what a block is): the vector
/// of AllReduce, Broadcast and Reduce, one rank's contribution to AllGather, one pair's message in AlltoAll.
/// With different counts per rank, of the largest block; ignored for AlltoAllv, whose counts no rank knows:
/// there the number of ranks decides. `ranks` >= 1.
Choice select(Collective collective, size_t bytes, int ranks, const SelectionTable& table);

}  // namespace eccl
