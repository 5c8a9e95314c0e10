// AlltoAll and AlltoAllv rail by rail, for hosts whose ranks have ports of their own: nothing crosses from one
// rail to another. A block for place p of another host is handed to the rank at place p of this host, through
// the host's memory, and that rank sends it on over its rail (NCCL's PXN). Where this host has fewer ranks it
// is the one at place p modulo their number.
//
// Each rank then has a connection to one rank of every other host instead of to all of them, and no port has
// several senders of one host. The price is a second pass of nearly all data through the memory of the host.
#include "algorithms/library/builders.h"
#include "algorithms/library/relayed_all_to_all.h"

namespace eccl::algorithms {

Program allToAllRail(const CollectiveShape& shape, const Placement& placement, int rank, int channels) {
  return relayedAllToAll(shape, Groups(placement.host), rank, channels);
}

}  // namespace eccl::algorithms
