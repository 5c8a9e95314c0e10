// The list of algorithms. One algorithm is one file; adding one means writing its build function and one line
// in algorithm.cc. CONTRIBUTING.md walks through it.
//
// Threads: the list is static and all functions are pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "algorithms/builder/collective.h"
#include "base/placement.h"
#include "program/program.h"

namespace eccl::algorithms {

/// Where ranks have to be for an algorithm to be considered.
enum class Where : uint8_t {
  anywhere,
  severalHosts,
  sharedHosts,  ///< on several hosts, some with several ranks
};

/// One way to carry out a collective.
struct Algorithm {
  const char* name;  // as in ECCL_ALGO: "ring", "tree", …
  Collective collective;
  /// The program of one rank. A pure function. shape.ranks >= 1, and placement says where these are, the same
  /// on all of them; channels >= 1.
  Program (*build)(const CollectiveShape& shape, const Placement& placement, int rank, int channels);
  Where where = Where::anywhere;
  /// Whether its programs depend on the hosts of the ranks.
  constexpr bool hierarchical() const { return where != Where::anywhere; }
};

/// All algorithms. For each collective the first one is used where no rule chooses.
std::span<const Algorithm> algorithms();
/// The algorithm of that name for the collective; nullptr if there is none.
const Algorithm* findAlgorithm(Collective collective, std::string_view name);
/// As above, with the collective by its name, as nameOf() writes it.
const Algorithm* findAlgorithm(std::string_view collective, std::string_view name);
/// The programs of all ranks, by rank. Takes time and memory for all of them: for proofs, simulations and
/// tests.
std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape,
                              const Placement& placement, int channels);
/// As above, of ranks on one host.
std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape, int channels);

}  // namespace eccl::algorithms
