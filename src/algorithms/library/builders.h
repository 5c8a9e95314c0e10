// The build functions of all algorithms, each in the file of its name. Only algorithm.cc needs them; others
// go through findAlgorithm(). Each file's head says how its algorithm works and what it is good for. All of
// them are pure, and have the arguments of Algorithm::build.
#pragma once

#include "algorithms/builder/collective.h"
#include "base/placement.h"
#include "program/program.h"

namespace eccl::algorithms {

Program allReduceRing(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceTree(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceHierarchical(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceDoubling(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceRail(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allReduceOneshot(const CollectiveShape& shape, const Placement&, int rank, int channels);

Program allGatherRing(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allGatherRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allGatherHierarchical(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allGatherDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);

Program reduceScatterRing(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceScatterRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceScatterHierarchical(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceScatterDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);

Program broadcastChain(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program broadcastTree(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program broadcastDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program broadcastHierarchical(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program broadcastSplit(const CollectiveShape& shape, const Placement&, int rank, int channels);

Program reduceChain(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceTree(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceHierarchical(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program reduceDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);

Program gatherDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program gatherTree(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program scatterDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program scatterTree(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allToAllDirect(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allToAllRail(const CollectiveShape& shape, const Placement&, int rank, int channels);
Program allToAllRelay(const CollectiveShape& shape, const Placement&, int rank, int channels);

}  // namespace eccl::algorithms
