// Lists of what a lane does, as few steps: blocks and connections that follow one another become walks.
//
// Where ranks stand in the order of their hosts these lists are walks around rings. Elsewhere they are any
// numbers, and as many steps as need be.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "program/program.h"

namespace eccl::algorithms {

/// Two numbers of one repetition of a step, such as a block and a connection.
using Pair = std::array<int, 2>;

/// Repetitions of one step, and how the two numbers walk in them.
struct Walks {
  Walk first, second;
  int times = 0;
};

/// The list cut into runs, in its order. Each is as long as it can be, so a list that goes around a ring is
/// one.
std::vector<Walks> runsOf(std::span<const Pair> list);

}  // namespace eccl::algorithms
