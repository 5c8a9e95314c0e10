// What the devices do: make requests, complete them, flush. All functions are called under World::mutex.
#pragma once

#include "verbs_emulation/world.h"

namespace eccl::verbs_emulation {

/// Makes all requests that can be made. Errors that come of waiting in vain (no answer, no receive) come only
/// for senders whose completion queue is `polled` or armed, so that a test can repair what they wait for, and a
/// sender that sleeps is woken nevertheless.
void progress(const CompletionQueue* polled);

/// The queue pair goes to the error state; all that is outstanding is flushed, in order.
void toError(QueuePair& pair);
/// Completes what is outstanding with IBV_WC_WR_FLUSH_ERR, in order. In the error state only.
void flush(QueuePair& pair);
/// Forgets requests and completions of a queue pair, as reset and destruction do.
void forget(QueuePair& pair);
/// What was to come to memory with completions of this queue pair, or into this memory, comes now.
void landOf(QueuePair& pair);
void landIn(const Region& region);

/// Adds an entry, and an event if one is asked for.
void complete(CompletionQueue& queue, Completion completion);

/// Where the bytes of `pieces` lie; false if a local key does not allow that.
bool locate(const Domain& domain, const std::vector<ibv_sge>& pieces, unsigned access,
            std::vector<Span>* spans);
/// As locate(), for a remote key.
bool locateRemote(const Domain& domain, uint64_t address, uint64_t length, uint32_t key, unsigned access,
                  std::vector<Span>* spans);

/// The queue pair that this one's messages come to, whatever its state; null if there is none.
QueuePair* peerOf(QueuePair& pair);
/// Whether it takes them as its peer's, and its answers come back.
bool answers(QueuePair& peer, QueuePair& pair);

/// Raises an asynchronous event in one context, and in all of a device.
void raise(Context& context, const ibv_async_event& event);
void raiseOf(QueuePair& pair, ibv_event_type type);
void raiseOf(Device& device, ibv_event_type type, int port);

}  // namespace eccl::verbs_emulation
