// By which routers flows go between the hosts of a job.
#pragma once

#include "eccl/eccl.h"
#include "tools/common/outcome.h"

namespace eccl::topo {

/// Traces flows from the first rank of each host to the first of each other, over their first rails, one after
/// the other, and prints on rank 0 which source ports take which way. Flows of TCP, or of UDP to the port
/// `datagramsTo` if that is not 0. Every rank of `world` calls it.
tools::Outcome printPaths(ecclComm_t world, int rank, int ranks, uint16_t datagramsTo);

}  // namespace eccl::topo
