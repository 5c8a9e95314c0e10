// The table of algorithms. For each collective the first one is used where no rule chooses.
#include "algorithms/library/algorithm.h"

#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

constexpr Algorithm kAlgorithms[] = {
    {"ring", Collective::allReduce, allReduceRing},
    {"tree", Collective::allReduce, allReduceTree},
    {"recursive", Collective::allReduce, allReduceRecursive},
    {"direct", Collective::allReduce, allReduceDirect},
    {"oneshot", Collective::allReduce, allReduceOneshot},
    {"hierarchical", Collective::allReduce, allReduceHierarchical, Where::sharedHosts},
    {"rail", Collective::allReduce, allReduceRail, Where::sharedHosts},
    {"doubling", Collective::allReduce, allReduceDoubling, Where::severalHosts},

    // The v calls differ in the sizes of the blocks only, and programs know no sizes.
    {"ring", Collective::allGather, allGatherRing},
    {"ring", Collective::allGatherv, allGatherRing},
    {"recursive", Collective::allGather, allGatherRecursive},
    {"recursive", Collective::allGatherv, allGatherRecursive},
    {"direct", Collective::allGather, allGatherDirect},
    {"direct", Collective::allGatherv, allGatherDirect},
    {"hierarchical", Collective::allGather, allGatherHierarchical, Where::sharedHosts},
    {"hierarchical", Collective::allGatherv, allGatherHierarchical, Where::sharedHosts},

    {"ring", Collective::reduceScatter, reduceScatterRing},
    {"ring", Collective::reduceScatterv, reduceScatterRing},
    {"recursive", Collective::reduceScatter, reduceScatterRecursive},
    {"recursive", Collective::reduceScatterv, reduceScatterRecursive},
    {"direct", Collective::reduceScatter, reduceScatterDirect},
    {"direct", Collective::reduceScatterv, reduceScatterDirect},
    {"hierarchical", Collective::reduceScatter, reduceScatterHierarchical, Where::sharedHosts},
    {"hierarchical", Collective::reduceScatterv, reduceScatterHierarchical, Where::sharedHosts},

    {"chain", Collective::broadcast, broadcastChain},
    {"tree", Collective::broadcast, broadcastTree},
    {"direct", Collective::broadcast, broadcastDirect},
    {"split", Collective::broadcast, broadcastSplit},
    {"hierarchical", Collective::broadcast, broadcastHierarchical, Where::sharedHosts},

    {"chain", Collective::reduce, reduceChain},
    {"tree", Collective::reduce, reduceTree},
    {"direct", Collective::reduce, reduceDirect},
    {"hierarchical", Collective::reduce, reduceHierarchical, Where::sharedHosts},

    {"direct", Collective::gather, gatherDirect},
    {"tree", Collective::gather, gatherTree},
    {"direct", Collective::scatter, scatterDirect},
    {"tree", Collective::scatter, scatterTree},

    {"direct", Collective::allToAll, allToAllDirect},
    {"rail", Collective::allToAll, allToAllRail, Where::sharedHosts},
    {"direct", Collective::allToAllv, allToAllDirect},
    {"relay", Collective::allToAllv, allToAllRelay},
    {"rail", Collective::allToAllv, allToAllRail, Where::sharedHosts},

    // One byte per rank. Recursive is the dissemination pattern: log2 n neighbours instead of n-1.
    {"direct", Collective::barrier, allGatherDirect},
    {"recursive", Collective::barrier, allGatherRecursive},
};

}  // namespace

std::span<const Algorithm> algorithms() {
  return kAlgorithms;
}

const Algorithm* findAlgorithm(Collective collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && name == algorithm.name) return &algorithm;
  }
  return nullptr;
}

const Algorithm* findAlgorithm(std::string_view collective, std::string_view name) {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (collective == nameOf(algorithm.collective) && name == algorithm.name) return &algorithm;
  }
  return nullptr;
}

std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape,
                              const Placement& placement, int channels) {
  std::vector<Program> programs;
  for (int rank = 0; rank < shape.ranks; ++rank)
    programs.push_back(algorithm.build(shape, placement, rank, channels));
  return programs;
}

std::vector<Program> buildAll(const Algorithm& algorithm, const CollectiveShape& shape, int channels) {
  return buildAll(algorithm, shape, Placement::oneHost(shape.ranks, shape.ranks), channels);
}

}  // namespace eccl::algorithms
