// The maps of blocks: which blocks each rank's buffers hold, collective by collective.
#include "algorithms/builder/collective.h"

namespace eccl::algorithms {

int CollectiveShape::blocks() const {
  switch (collective) {
    case Collective::allToAll:
    case Collective::allToAllv:
      return ranks * ranks;
    case Collective::allReduce:
    case Collective::broadcast:
    case Collective::reduce:
    case Collective::send:
    case Collective::receive:
      return 1;
    default:
      return ranks;
  }
}

BlockMap CollectiveShape::input(int rank) const {
  switch (collective) {
    case Collective::allReduce:
    case Collective::reduce:
      return {0, 1, 1};
    case Collective::broadcast:
      return {0, 1, rank == root ? 1 : 0};
    case Collective::allGather:
    case Collective::allGatherv:
    case Collective::gather:
    case Collective::barrier:
      return {rank, 1, 1};
    case Collective::reduceScatter:
    case Collective::reduceScatterv:
      return {0, 1, ranks};
    case Collective::scatter:
      return {0, 1, rank == root ? ranks : 0};
    case Collective::allToAll:
    case Collective::allToAllv:
      return {rank * ranks, 1, ranks};
    case Collective::send:
      return {0, 1, 1};
    case Collective::receive:
      return {0, 1, 0};
  }
  return {};
}

BlockMap CollectiveShape::output(int rank) const {
  switch (collective) {
    case Collective::allReduce:
    case Collective::broadcast:
      return {0, 1, 1};
    case Collective::reduce:
      return {0, 1, rank == root ? 1 : 0};
    case Collective::allGather:
    case Collective::allGatherv:
    case Collective::barrier:
      return {0, 1, ranks};
    case Collective::gather:
      return {0, 1, rank == root ? ranks : 0};
    case Collective::reduceScatter:
    case Collective::reduceScatterv:
    case Collective::scatter:
      return {rank, 1, 1};
    case Collective::allToAll:
    case Collective::allToAllv:
      return {rank, ranks, ranks};
    case Collective::send:
      return {0, 1, 0};
    case Collective::receive:
      return {0, 1, 1};
  }
  return {};
}

int CollectiveShape::origin(int block) const {
  switch (collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return root;
    case Collective::allToAll:
    case Collective::allToAllv:
      return block / ranks;
    default:
      return block;
  }
}

bool CollectiveShape::mayBeInPlace(int rank) const {
  if (collective == Collective::allToAll || collective == Collective::allToAllv) return false;
  return input(rank).number > 0 && output(rank).number > 0;
}

}  // namespace eccl::algorithms
