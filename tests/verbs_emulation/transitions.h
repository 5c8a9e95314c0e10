// From which state a queue pair goes to which, and what has to be said then: the table of the InfiniBand
// specification for reliable connections. Called under World::mutex.
#pragma once

#include "verbs_emulation/objects.h"

namespace eccl::verbs_emulation {

/// 0, or EINVAL: no such transition, attributes that are missing, not allowed, or out of range.
int checkTransition(QueuePair& pair, const ibv_qp_attr& wanted, int mask);
/// Takes over the attributes of `mask`, but the state.
void apply(QueuePair& pair, const ibv_qp_attr& wanted, int mask);

}  // namespace eccl::verbs_emulation
