// What tests ask of the emulated libibverbs beside libibverbs's own functions. The emulation exports these from
// the same library, so that they are linked or found by dlsym. C functions. Any thread.
//
// It takes the place of libibverbs where LD_LIBRARY_PATH leads to it, and where it is loaded by its path before
// anything asks for libibverbs.so.1, as the loader has a library of that name then.
//
// The world is all devices of the process. It begins with "emu0" and "emu1", of one active RoCE port each, with
// four GIDs: 0 and 1 are link-local, 2 and 3 are 127.0.0.1 (emu1: 127.0.0.2) mapped to IPv6; even ones are RoCE
// v1, odd ones RoCE v2. A device is named by its number in the order of creation, from 0, a port from 1 on.
//
// VERBS_EMULATION_ORDER in the environment is the order of arrivals in the first world, for programs that do
// not call verbsEmulationSetOrder(): "backward" or "shuffled", and with ",relaxed" behind it, late as well.
// VERBS_EMULATION_LOCKABLE is what verbsEmulationLimitMemory() says. With VERBS_EMULATION_ON_DEMAND its devices
// look up pages on demand, as verbsEmulationOfferOnDemand() says, for SEND and RDMA WRITE.
//
// Functions that return int return 0, or an errno: ENODEV for a device, ENXIO for a port, that is not there,
// EINVAL for anything else that makes no sense.
#pragma once

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What there is and what has been done since verbsEmulationReset().
struct VerbsEmulationCounters {
  uint64_t contexts, domains, regions, channels, completionQueues, queuePairs, sharedQueues;  ///< alive
  uint64_t registeredBytes;                                    ///< alive, of all regions together
  uint64_t sends, sendsWithImm, writes, writesWithImm, reads;  ///< requests taken, by opcode
  uint64_t receives;                                           ///< requests taken
  uint64_t sendDoorbells, receiveDoorbells;                    ///< calls that took at least one request
  uint64_t movedBytes;                                         ///< of messages that arrived
  uint64_t largestRegionSent, largestRegionWritten;  ///< of those that messages came from, and went to
  uint64_t deviceBytesSent, deviceBytesWritten;      ///< of requests taken: from and to memory of other devices
  uint64_t polls, emptyPolls;                        ///< calls, and those that found nothing
  uint64_t completions, errorCompletions;            ///< entries polled; those not successful
  uint64_t armings, channelEvents, asyncEvents;      ///< asked for; raised
  uint64_t violations;                               ///< see verbsEmulationTolerate()
};

/// In which order the bytes of a message come to memory.
enum VerbsEmulationOrder {
  VERBS_EMULATION_FORWARD = 0,
  VERBS_EMULATION_BACKWARD = 1,  ///< by cache lines, from the last one
  VERBS_EMULATION_SHUFFLED = 2,  ///< by cache lines, the same order each time
};

/// Which completions of a queue pair are meant.
enum VerbsEmulationSide {
  VERBS_EMULATION_SENDS = 1,
  VERBS_EMULATION_RECEIVES = 2,
  VERBS_EMULATION_BOTH = 3,
};

// The world -------------------------------------------------------------------------------------------------

/// Destroys all objects, forgets all that was asked for below, and makes the first world again. Returns how
/// many objects (contexts, PDs, MRs, channels, CQs, QPs, SRQs) were still alive. No other thread may be in a
/// call.
int verbsEmulationReset(void);
/// The counters, now.
void verbsEmulationCounters(struct VerbsEmulationCounters* counters);
/// Misuse (unknown handles, completion queues that overrun, ...) ends the process with a sentence on stderr.
/// With `on` it is only counted and said, and the call fails.
void verbsEmulationTolerate(int on);

// Devices ---------------------------------------------------------------------------------------------------

/// Adds a device without ports. Returns its number.
int verbsEmulationAddDevice(const char* name);
/// Removes all devices: device lists are empty. What is open goes on.
void verbsEmulationRemoveAllDevices(void);
/// The device is in no device list from now on. What is open goes on.
int verbsEmulationRemoveDevice(int device);
/// Adds an active port with an empty GID table. `linkLayer`: IBV_LINK_LAYER_ETHERNET or _INFINIBAND. `lid`: for
/// InfiniBand, unique. Returns its number, or a negative errno.
int verbsEmulationAddPort(int device, uint8_t linkLayer, uint16_t lid);
/// Sets an entry of the port's GID table, which grows as needed. `type`: enum ibv_gid_type. No event. An
/// all-zero or null `gid` empties the entry.
int verbsEmulationSetGid(int device, int port, int index, const union ibv_gid* gid, uint32_t type);
/// As verbsEmulationSetGid(), and raises IBV_EVENT_GID_CHANGE.
int verbsEmulationChangeGid(int device, int port, int index, const union ibv_gid* gid, uint32_t type);
/// The port's MTU.
int verbsEmulationSetMtu(int device, int port, enum ibv_mtu mtu);
/// The port goes to `state`. IBV_EVENT_PORT_ERR when it leaves IBV_PORT_ACTIVE, IBV_EVENT_PORT_ACTIVE when it
/// comes back. Meanwhile nothing gets through it: requests that need it fail with IBV_WC_RETRY_EXC_ERR once
/// their sender polls, at once where it has armed its completion queue.
int verbsEmulationSetPortState(int device, int port, enum ibv_port_state state);
/// IBV_EVENT_DEVICE_FATAL. All queue pairs of the device go to the error state. Opening it, and creating or
/// registering anything on it, fails with EIO.
int verbsEmulationFatal(int device);
/// Raises an event of a port, or of the device (then `port` is not looked at), in all its contexts.
int verbsEmulationRaise(int device, enum ibv_event_type type, int port);
/// What ibv_query_device() says, and what is held to: -1 leaves a limit as it is.
int verbsEmulationSetLimits(int device, int maxQp, int maxQpWr, int maxSge, int maxCqe, int maxInline);
/// What the device says that it does in memory whose pages it looks up when it needs them, over reliable
/// connections: enum ibv_odp_transport_cap_bits. 0, as it begins: there is no such memory. Regions of it are in
/// `regions` of the counters, not in `registeredBytes`, as nothing is locked.
int verbsEmulationOfferOnDemand(int device, uint32_t capabilities);
/// While `on`, the UDP port of its queue pairs can be changed as those of libmlx5's devices can. A library of
/// the name libmlx5.so.1 comes with the emulation; it has to be loaded.
int verbsEmulationChangesUdpPorts(int device, int on);

// Queue pairs -----------------------------------------------------------------------------------------------

/// Writes up to `room` numbers of living queue pairs, in the order of creation. Returns how many there are.
int verbsEmulationQueuePairs(uint32_t* numbers, int room);
/// The state of a queue pair, or -1.
int verbsEmulationQueuePairState(uint32_t number);
/// What a living queue pair was told so far, as ibv_query_qp() says it.
int verbsEmulationQueuePairAttributes(uint32_t number, struct ibv_qp_attr* attributes);
/// The UDP port that a queue pair was last told to send from; 0: none. Negative: there is no such pair.
int verbsEmulationUdpPort(uint32_t number);
/// IBV_EVENT_QP_FATAL, and the queue pair goes to the error state.
int verbsEmulationBreakQueuePair(uint32_t number);

// What goes wrong -------------------------------------------------------------------------------------------

/// The `which`-th completion from now (1: the next) of queue pair `number` (0: of any) has `status`. `side`:
/// enum VerbsEmulationSide. Requests that would complete without a completion, and flushed ones, do not count.
/// No byte of the request arrives, and its queue pair goes to the error state; where a receive fails, its
/// sender completes with IBV_WC_REM_OP_ERR. IBV_WC_RETRY_EXC_ERR and the like leave the peer as it is.
int verbsEmulationFailCompletion(uint32_t number, int side, int which, enum ibv_wc_status status);
/// The `which`-th call from now (1: the next) of the libibverbs function of that name, such as "ibv_create_qp",
/// "ibv_reg_mr" (all its forms), "ibv_post_send", "ibv_poll_cq", fails with `error`, an errno. Every function
/// that can fail is meant but those that ask for names and texts.
int verbsEmulationFailCall(const char* function, int which, int error);
/// While `off`, ibv_reg_dmabuf_mr() fails with EOPNOTSUPP. Else it takes any file that can be mapped for a
/// dma-buf.
void verbsEmulationRefuseDmabufs(int off);
/// ibv_reg_mr fails with ENOMEM where all regions together would be larger. UINT64_MAX: no limit.
void verbsEmulationLimitMemory(uint64_t bytes);
/// ibv_poll_cq returns at most that many completions a call. 0: as many as are asked for.
void verbsEmulationLimitPoll(int completions);
/// While `on`, nothing arrives: requests wait. Off: they go on, at once. Flushing goes on meanwhile.
void verbsEmulationHold(int on);
/// As verbsEmulationHold(), for what queue pair `number` sends.
int verbsEmulationHoldQueuePair(uint32_t number, int on);
/// The order in which bytes come to memory. `relaxed`: a message comes to memory when the next completion of
/// its receiver's queue pair is polled, and what is read when the reader's next one is: who looks at memory
/// sooner does not find it. A message with no completion behind it stays away, also where its sender has
/// completed. It comes sooner where it has to be there: before a read by the same queue pair, before a request
/// with IBV_SEND_FENCE, when its queue pair leaves RTR and RTS, and when its memory is deregistered.
int verbsEmulationSetOrder(enum VerbsEmulationOrder order, int relaxed);

#ifdef __cplusplus
}
#endif
