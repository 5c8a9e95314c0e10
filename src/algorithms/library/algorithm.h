// The list of algorithms. One algorithm, one file; adding one means writing its build function and one line
// in algorithm.cc.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "algorithms/builder/collective.h"
#include "program/program.h"

namespace eccl::algorithms {

struct Algorithm {
  const char* name;  // as in ECCL_ALGO: "ring", "tree", …
  Collective collective;
  /// The program of one rank. A pure function. shape.ranks >= 1; channels >= 1.
  Program (*build)(const CollectiveShape& shape, int rank, int channels);
};

std::span<const Algorithm> algorithms();
/// nullptr if there is none of that name for the collective.
const Algorithm* findAlgorithm(Collective collective, std::string_view name);
/// The same for a collective by its name, as nameOf() writes it.
const Algorithm* findAlgorithm(std::string_view collective, std::string_view name);
/// Every rank's program.
std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape, int channels);

}  // namespace eccl::algorithms
