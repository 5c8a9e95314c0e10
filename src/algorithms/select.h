// Which algorithm carries out a call: a pure function of what every rank knows alike, so that all ranks
// choose the same without asking each other.
//
// By the size of the call and the number of ranks, unless the setting ECCL_ALGO says otherwise. Its text is
// compared among ranks when a communicator is made (it is a wire setting).
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "algorithms/algorithm.h"
#include "base/status.h"

namespace eccl {

struct Choice {
  const Algorithm* algorithm;  // of the static list; nullptr for Send and Recv, which have none
  int channels;
};

/// What the settings say. A value; the default leaves everything to the sizes.
struct SelectionTable {
  std::array<const Algorithm*, kCollectives> forced{};  // by collective; nullptr: chosen by size
  int channels = 0;                                     // 0: chosen
  bool oneHost = false;                                 // all ranks are on one: they reach each other's memory
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
/// With different counts per rank, of the largest block; ignored for AlltoAllv, whose counts no rank knows.
/// `ranks` >= 1.
Choice select(Collective collective, size_t bytes, int ranks, const SelectionTable& table);

}  // namespace eccl
