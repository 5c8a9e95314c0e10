// Where threads of one process that know nothing of each other hand over a ring.
#pragma once

#include "transport/shm/ring_memory.h"

namespace eccl {

// The two ranks are separate communicators' worth of objects; all they share is the process. So this is a
// process-wide table, small and short-lived: an entry exists from the sender's offer until the receiver takes
// it. Sending a bare pointer over the socket instead would dangle if the sender gave up meanwhile. Any thread.

/// `nonce` is random; the receiver finds the memory under it.
void leaveForThread(const Nonce& nonce, RingMemory memory);
/// Null if there is nothing of that name (any more). It can be taken once.
RingMemory takeFromThread(const Nonce& nonce);

}  // namespace eccl
