/* ECCL: collective communication with verified schedules. This is the C API.
 *
 * It has the shape of NCCL's: the same calls, argument orders, enum values and struct layouts, with the
 * prefix `eccl`. A program links with libeccl and includes nothing else.
 *
 * A communicator is a group of ranks, numbered from 0. Each rank is a thread or a process that has joined it.
 * The life of a rank in a job:
 *
 *   ecclUniqueId id;                                     (one rank makes it, all others get a copy)
 *   ecclGetUniqueId(&id);
 *   ecclCommInitRank(&comm, nranks, id, rank);           (returns when all have joined)
 *   ecclAllReduce(data, data, count, ecclFloat32, ecclSum, comm, NULL);
 *   ecclCommDestroy(comm);
 *
 * Collectives. All ranks of a communicator make the same collectives in the same order, with the same counts,
 * types, operations and roots. A rank that makes another call gets an error that names both calls, and so do
 * the others. ecclAllReduce gives the same bits on all ranks.
 *
 * Counts are in elements, never bytes, unless a name says bytes. 0 is legal: such a call moves nothing, and
 * its buffers may be NULL. Counts of 2^31 and above work.
 *
 * Buffers belong to the caller. They must stay valid, and the caller must not change them, until the
 * operation is complete:
 *  - on a blocking communicator with a NULL stream, when the call returns; in a group, when the outermost
 *    ecclGroupEnd returns;
 *  - otherwise when the stream has drained (ecclStreamSynchronize, ecclStreamQuery).
 * Any memory of the process will do; memory from ecclMemAlloc is faster between processes of one host. Send
 * and receive buffers must not overlap, except where a call is said to work in place.
 *
 * Threads. Any thread may make any call at any time, on any handle. Which of two calls made at the same time
 * comes first is not defined. As every rank has to make the same collectives in the same order, one thread per
 * communicator makes them. A call that ends an object (ecclCommDestroy, ecclCommAbort, ecclStreamDestroy)
 * waits for calls under way on it. From then on its handle is refused. Handles are numbers in the shape of
 * pointers: nothing lies behind them.
 *
 * Errors. Every failure returns a code other than ecclSuccess. ecclGetLastError() gives the sentence that says
 * what happened, to whom and what to do. The first failure of a communicator ends all its work, on all ranks:
 * afterwards only ecclCommAbort and ecclCommDestroy are of use. A wrong argument is no such failure: the call
 * is refused, nothing has happened, and the communicator works on. Nothing is thrown, and no wait is endless
 * because a rank has died.
 *
 * Processes. In a child made by fork() every call on the parent's communicators is refused. A process started
 * by exec can join communicators of its own.
 *
 * GPUs. With the setting ECCL_DEVICE=cuda communicators are for the CUDA device that is current in the thread
 * that makes them (ecclCommInitAll: for those of its list). Then buffers are that device's memory or pinned
 * memory, streams are cudaStream_t, passed as ecclStream_t, and NULL is the device's default stream. Every call
 * returns when it is queued. CUDA's functions wait for streams, and ecclCommGetAsyncError tells whether calls
 * have failed.
 *
 * Settings. The environment variables ECCL_... and files of settings are described in docs/settings.md.
 */
#ifndef ECCL_ECCL_H_
#define ECCL_ECCL_H_

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "eccl/version.h"

#if defined(__GNUC__)
#define ECCL_API __attribute__((visibility("default")))
#else
#define ECCL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Types -------------------------------------------------------------------------------------- */

/* One rank's membership in a communicator. Made by ecclCommInit..., ecclCommSplit; ended by ecclCommDestroy or
 * ecclCommAbort. */
typedef struct ecclComm* ecclComm_t;
/* A host stream: a queue of operations that complete in the order of their calls. Made by ecclStreamCreate.
 * NULL is the default stream: blocking calls complete before they return. */
typedef struct ecclStream* ecclStream_t;

#define ECCL_UNIQUE_ID_BYTES 128
/* Names a communicator to be made. Opaque: 128 bytes to copy to every rank by any means, such as MPI, a store
 * or a file. It holds a secret, and who has read it can join: copy it by a way that others cannot read. */
typedef struct {
  char internal[ECCL_UNIQUE_ID_BYTES];
} ecclUniqueId;

/* What a call returns. The values are those of ncclResult_t; ecclTimeout is added. */
typedef enum {
  ecclSuccess = 0,
  ecclUnhandledCudaError = 1, /* a call into the CUDA driver failed */
  ecclSystemError = 2,        /* a call into the operating system failed, or memory or threads ran out */
  ecclInternalError = 3,      /* a bug in ECCL */
  ecclInvalidArgument = 4,    /* a value is wrong */
  ecclInvalidUsage = 5,       /* a call is wrong here, or ranks disagree about a call or a setting */
  ecclRemoteError = 6,        /* another rank died, aborted or failed */
  ecclInProgress = 7,         /* a non-blocking operation goes on; poll ecclCommGetAsyncError */
  ecclTimeout = 8,            /* something that had a time limit passed it */
  ecclNumResults = 9
} ecclResult_t;

/* The type of an element. Names on the same value mean the same type. The 16-bit and 8-bit floating types are
 * combined in 32 bits and rounded once for each step of a schedule. The fp8 types are the OCP's: where
 * a result is too large for them, it becomes the largest finite value. */
typedef enum {
  ecclInt8 = 0,
  ecclChar = 0,
  ecclUint8 = 1,
  ecclInt32 = 2,
  ecclInt = 2,
  ecclUint32 = 3,
  ecclInt64 = 4,
  ecclUint64 = 5,
  ecclFloat16 = 6,
  ecclHalf = 6,
  ecclFloat32 = 7,
  ecclFloat = 7,
  ecclFloat64 = 8,
  ecclDouble = 8,
  ecclBfloat16 = 9,
  ecclFloat8e4m3 = 10,
  ecclFloat8e5m2 = 11,
  ecclNumTypes = 12
} ecclDataType_t;

/* How contributions are combined. Integers wrap around. ecclRedOpCreatePreMulSum makes further values. */
typedef enum {
  ecclSum = 0,
  ecclProd = 1,
  ecclMax = 2,
  ecclMin = 3,
  ecclAvg = 4,    /* sum divided by the number of ranks; integers divide with truncation */
  ecclNumOps = 5, /* operators made by ecclRedOpCreatePreMulSum start here */
  ecclMaxRedOp = 0x7fffffff
} ecclRedOp_t;

/* When ecclRedOpCreatePreMulSum's scalar is read. */
typedef enum {
  ecclScalarDevice = 0,       /* the scalar lives in memory that is read when the operation runs */
  ecclScalarHostImmediate = 1 /* the scalar is read during the create call */
} ecclScalarResidence_t;

/* Options of one communicator. Fill with ECCL_CONFIG_INITIALIZER, then set what differs:
 *
 *   ecclConfig_t config = ECCL_CONFIG_INITIALIZER;
 *   config.blocking = 0;
 *
 * The layout is ncclConfig_t's (96 bytes). Fields that name GPU resources are accepted and have no effect on a
 * host communicator; those without a comment are of that kind. The library reads a config during the call and
 * keeps a copy, of its strings too. */
typedef struct ecclConfig_v23000 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int blocking;         /* 1 (default): calls complete in the caller; 0: poll ecclCommGetAsyncError */
  int cgaClusterSize;
  int minCTAs;         /* least number of channels, from 1 */
  int maxCTAs;         /* greatest number of channels, not less than minCTAs */
  const char* netName; /* transport between hosts: "tcp" */
  int splitShare;      /* accepted; ECCL's children share nothing that could block their parent */
  int trafficClass;
  const char* commName; /* appears in every message about this communicator */
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
} ecclConfig_t;

/* The values of fields that are not set; the library then chooses. */
#define ECCL_CONFIG_UNDEF_INT INT_MIN
#define ECCL_CONFIG_UNDEF_PTR NULL
#define ECCL_CONFIG_MAGIC 0xcafebeefu
/* The API level ECCL_CONFIG_INITIALIZER describes, in NCCL's numbering (2.30.7). */
#define ECCL_CONFIG_VERSION 23007
#define ECCL_CONFIG_INITIALIZER                                                                     \
  {                                                                                                 \
    sizeof(ecclConfig_t), ECCL_CONFIG_MAGIC, ECCL_CONFIG_VERSION, ECCL_CONFIG_UNDEF_INT,            \
        ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_PTR, \
        ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_PTR, ECCL_CONFIG_UNDEF_INT, \
        ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, \
        ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, ECCL_CONFIG_UNDEF_INT, \
        ECCL_CONFIG_UNDEF_INT                                                                       \
  }

/* ---- Versions and errors ------------------------------------------------------------------------ */

/* *version = X*10000 + Y*100 + Z of the library that is loaded, which may be newer than this header
 * (ECCL_VERSION_CODE in eccl/version.h). Any thread. ecclInvalidArgument: version is NULL. */
ECCL_API ecclResult_t ecclGetVersion(int* version);
/* A few words for a code, such as "system error". Never NULL; a static string, also for values that are no
 * code. Any thread. */
ECCL_API const char* ecclGetErrorString(ecclResult_t result);
/* The full sentence of the last failure: with a communicator the last one on it, with NULL the last one of the
 * calling thread. "" if there was none. The text belongs to the library and is valid until the next ECCL call
 * in this thread. */
ECCL_API const char* ecclGetLastError(ecclComm_t comm);

/* ---- Making and ending communicators ------------------------------------------------------------ */

/* Makes an id for a new communicator. One rank calls it and copies the id to the others; each of them then
 * calls ecclCommInitRank. This process listens for them, so it must stay alive until all have joined.
 *
 * With the setting ECCL_COMM_ID=host:port no copying is needed: every rank calls this function, the id is that
 * address and the same on all ranks, and rank 0 listens there. It takes a secret as well, the same on all
 * ranks: 32 hexadecimal digits in ECCL_COMM_SECRET, or in a file named by ECCL_COMM_SECRET_FILE.
 *
 * ecclInvalidArgument: id is NULL, or a setting is wrong. */
ECCL_API ecclResult_t ecclGetUniqueId(ecclUniqueId* id);
/* Joins the communicator of `id` as `rank` of `nranks` (0 <= rank < nranks) and sets *comm. It returns when all
 * ranks have joined. Each rank uses its own number once. In a group (ecclGroupStart) one thread may join as
 * several ranks, or in several communicators; *comm is then set at once and of use after ecclGroupEnd.
 *
 * Errors leave *comm NULL. ecclTimeout: some ranks did not come within ECCL_INIT_TIMEOUT (120 seconds unless
 * set); the sentence names them. ecclInvalidUsage: ranks differ in nranks, in a rank's number or in a setting
 * that must be the same. ecclInvalidArgument: comm is NULL, or rank and nranks are impossible. */
ECCL_API ecclResult_t ecclCommInitRank(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank);
/* As ecclCommInitRank, with options. `config` may be NULL. With config->blocking = 0 the call returns
 * ecclInProgress at once, and *comm is usable when ecclCommGetAsyncError says ecclSuccess. */
ECCL_API ecclResult_t ecclCommInitRankConfig(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank,
                                             ecclConfig_t* config);
/* As ecclCommInitRankConfig, for programs that make several ids (`nId`, from 1 to nranks): here one is enough,
 * as ranks meet at its root and then by a tree, and the first counts. ecclInvalidArgument: ids is NULL, or nId
 * is impossible. */
ECCL_API ecclResult_t ecclCommInitRankScalable(ecclComm_t* comm, int nranks, int rank, int nId,
                                               ecclUniqueId* ids, ecclConfig_t* config);
/* Makes a communicator of `ndev` ranks (at least 1) in this process: comms[i] is rank i. `comms` has room for
 * ndev handles. Collectives on them take one thread per rank, or a group. `devlist` is accepted for
 * compatibility with NCCL, and may be NULL. */
ECCL_API ecclResult_t ecclCommInitAll(ecclComm_t* comms, int ndev, const int* devlist);

#define ECCL_SPLIT_NOCOLOR (-1)
/* Divides a communicator. Collective: every rank of `comm` calls it. Ranks of equal color (>= 0) make a new
 * communicator, ordered by key, then by rank in `comm`. A rank with ECCL_SPLIT_NOCOLOR takes part and gets
 * *newcomm = NULL. `comm` stays usable; it and *newcomm are each to be destroyed. `config` may be NULL:
 * the parent's options.
 *
 * Splits of one communicator are told apart by their order, which has to be the same on all ranks, also within
 * a group. With a config of blocking=0 the call returns at once. Without a color it then returns ecclSuccess,
 * and `newcomm` is not written afterwards. Errors: as ecclCommInitRank's. */
ECCL_API ecclResult_t ecclCommSplit(ecclComm_t comm, int color, int key, ecclComm_t* newcomm,
                                    ecclConfig_t* config);
/* Waits for all outstanding work of this rank, and until its messages have been received. Collective: this rank
 * makes no call on `comm` afterwards, except ecclCommDestroy. A non-blocking communicator returns
 * ecclInProgress; poll ecclCommGetAsyncError.
 *
 * ecclRemoteError: a message will never be received, as its receiver has been finalized or destroyed. The
 * sentence names the receiver. */
ECCL_API ecclResult_t ecclCommFinalize(ecclComm_t comm);
/* Waits for other calls under way on `comm`, finalizes if that was not done, and frees everything. The handle
 * is invalid afterwards, whatever is returned. Errors: those of ecclCommFinalize. */
ECCL_API ecclResult_t ecclCommDestroy(ecclComm_t comm);
#define ECCL_SUSPEND_MEM 0x01
/* Gives back memory that is kept for calls to come: with ECCL_SUSPEND_MEM in `flags` (the only one; 0 gives back
 * nothing) plans, and the pages of shared rings that this rank writes to and whose messages peers have taken.
 * Until ecclCommResume only what asks about `comm` or ends it is allowed; collectives, splits and the like are
 * ecclInvalidUsage. A call that another thread makes at the same moment may still be let in. Peers need not do
 * the same: what they send waits. Local; does nothing if it is suspended already. Any thread.
 *
 * ecclInvalidUsage: calls of this rank are under way; wait for them first. ecclInvalidArgument: unknown flags. */
ECCL_API ecclResult_t ecclCommSuspend(ecclComm_t comm, int flags);
/* Ends what ecclCommSuspend began. The first calls take longer. Does nothing if it is not suspended. */
ECCL_API ecclResult_t ecclCommResume(ecclComm_t comm);
/* Ends every wait on this communicator within 100 ms, tells the other ranks, and frees everything. The other
 * ranks' calls fail with an error that names this rank. Communicators that are being split from it are aborted,
 * too. When it returns, no rank can change this rank's memory any more. Meant to be called from any thread, while
 * another is inside a collective. */
ECCL_API ecclResult_t ecclCommAbort(ecclComm_t comm);
/* Polls a communicator without waiting: *asyncError = ecclInProgress while a non-blocking init, split, finalize or
 * first call goes on, ecclSuccess, or the error that has ended the communicator, also in the background; after
 * ecclCommFinalize what that has returned, or would have. The function itself returns an error only if its
 * arguments are wrong. Any thread. */
ECCL_API ecclResult_t ecclCommGetAsyncError(ecclComm_t comm, ecclResult_t* asyncError);
/* Waits until every call made on `comm` with a NULL stream, by any thread, is complete. Returns the first error
 * of them. Only non-blocking communicators have something to wait for. Any thread. */
ECCL_API ecclResult_t ecclCommSynchronize(ecclComm_t comm);
/* *count = the number of ranks. */
ECCL_API ecclResult_t ecclCommCount(ecclComm_t comm, int* count);
/* *rank = the number of this rank, from 0. */
ECCL_API ecclResult_t ecclCommUserRank(ecclComm_t comm, int* rank);
/* *device = the number of the CUDA device that `comm` is for; -1: it is a host communicator. */
ECCL_API ecclResult_t ecclCommCuDevice(ecclComm_t comm, int* device);

/* What ecclCommQueryProperties says. Fill with ECCL_COMM_PROPERTIES_INITIALIZER. The layout is
 * ncclCommProperties_t's; what is about code on GPUs that calls the library is 0, as there is none. */
typedef struct ecclCommProperties_v23000 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int rank;
  int nRanks;
  int cudaDev; /* as ecclCommCuDevice */
  int nvmlDev; /* -1: not known */
  bool deviceApiSupport;
  bool multimemSupport;
  int ginType;
  int nLsaTeams; /* teams whose members' device code reads each other's memory: each rank is alone */
  bool hostRmaSupport;
  int railedGinType;
} ecclCommProperties_t;

#define ECCL_COMM_PROPERTIES_INITIALIZER \
  { sizeof(ecclCommProperties_t), ECCL_CONFIG_MAGIC, ECCL_CONFIG_VERSION }

/* Fills in as much of *properties as its `size` has room for. ecclInvalidArgument: it is NULL or was not filled
 * with the initializer. Any thread. */
ECCL_API ecclResult_t ecclCommQueryProperties(ecclComm_t comm, ecclCommProperties_t* properties);

/* What ecclCommMemStats counts: bytes, but for the second. */
typedef enum {
  ecclStatGpuMemSuspend = 0,   /* GPU memory that ecclCommSuspend would give back */
  ecclStatGpuMemSuspended = 1, /* 1: the communicator is suspended; 0: it is not */
  ecclStatGpuMemPersist = 2,   /* GPU memory that it would not give back */
  ecclStatGpuMemTotal = 3      /* all GPU memory of the communicator */
} ecclCommMemStat_t;

/* *value = the statistic. A host communicator has no GPU memory. ecclInvalidUsage: bytes of a GPU's
 * communicator, which are not counted. ecclInvalidArgument: value is NULL, or there is no such statistic. Any
 * thread. */
ECCL_API ecclResult_t ecclCommMemStats(ecclComm_t comm, ecclCommMemStat_t stat, uint64_t* value);

/* ---- Topology ----------------------------------------------------------------------------------- */

/* Writes what the hosts of `comm` are made of and where each rank runs, as JSON (docs/cluster.schema.json). The
 * text is the same on every rank and through the life of `comm`. Not collective. Any thread.
 *
 * Two calls, so that all memory is the caller's:
 *   size_t size;
 *   ecclTopologyExport(comm, NULL, &size);   (sets size to the bytes it needs, a final NUL included)
 *   char* text = malloc(size);
 *   ecclTopologyExport(comm, text, &size);   (writes the text, and sets size again)
 *
 * ecclInvalidArgument: *size is too small; nothing was written, and *size says how many bytes it takes.
 * ecclInvalidUsage: this build has no JSON, or hosts differ and another rank's build has none. */
ECCL_API ecclResult_t ecclTopologyExport(ecclComm_t comm, char* text, size_t* size);

/* What ecclCommGetConnections says of one connection, or of one socket of it. Numbers count from the beginning
 * of the connection and only grow, but for `waiting`, `rate` and `rtt`. Texts end with a NUL; those that do not
 * fit are cut. Further members may be added at the end. */
typedef struct {
  size_t size;            /* sizeof(ecclConnectionInfo_t) */
  int peer;               /* rank at the other end; -1: none, a rail of this rank over which no socket goes */
  int sends;              /* 1: this rank sends its messages, 0: it receives them */
  int channel;            /* of several connections between two ranks */
  int tag;                /* likewise; 32767: for Send and Recv, else for collectives */
  ecclResult_t state;     /* ecclInProgress: being made; ecclSuccess: in use; ecclRemoteError: it has failed */
  int socket;             /* which of its sockets, from 0; -1: it has none; the numbers after `bytes` are 0 */
  int sockets;            /* how many it has */
  uint64_t messages;      /* of the connection: sent, or received */
  uint64_t bytes;         /* in these messages, by whatever way they went */
  uint64_t sent;          /* bytes of the socket that the peer's host has acknowledged */
  uint64_t received;      /* bytes of the socket */
  uint64_t waiting;       /* bytes of the socket that are not sent, or not acknowledged */
  uint64_t retransmits;   /* packets that the socket has sent again */
  uint64_t retransmitted; /* bytes in them */
  uint64_t rate;          /* bytes per second that were sent while there was something to send; 0: not known */
  uint64_t rtt;           /* microseconds of a round trip, queues included, smoothed */
  char path[16];          /* "thread", "shm", "tcp" or a module's; "": not found yet */
  char interface[16];     /* of this host, that the socket goes by; of a connection by RDMA its device and port,
                             "mlx5_0:1", cut in the middle if need be; "": not known */
  char local[64];         /* This end. Of a socket: "192.0.2.1:5000" or "[2001:db8::1]:5000"; port 0: sums over
                             sockets that were closed, as others took their place. Of RDMA: "192.0.2.1:17", with
                             the number of its first queue pair, on InfiniBand "lid-5:17". Of a rail without
                             sockets: its address. */
  char remote[64];        /* the other end */
  char peerHost[64];      /* name of the peer's host */
} ecclConnectionInfo_t;

/* Lists the connections of this rank in `comm`: one entry for each socket, one for each connection that has
 * none (as those within a host), and one for each rail that is not used. It shows over which link a job is
 * slow: the one with retransmissions, the longest `rtt`, the lowest `rate`. Not collective. Any thread, also
 * while others are in collectives, and after `comm` has failed: sockets that broke are listed as they were.
 *
 *   size_t count = 0;
 *   ecclCommGetConnections(comm, NULL, &count);             (sets count to the number of entries)
 *   ecclConnectionInfo_t* infos = calloc(count + 1, sizeof *infos);   (there may be none)
 *   infos->size = sizeof *infos;
 *   ecclCommGetConnections(comm, infos, &count);
 *
 * `infos` belongs to the caller; the size in its first entry tells the library which header the program was
 * made with. *count: how many entries there is room for, and afterwards how many there are. That may be more,
 * as connections are made when they are first needed; then as many are filled in as there is room for.
 *
 * It looks at all sockets, a few microseconds each, and the thread that is just moving data does it: not for
 * every call. ecclInvalidArgument: count is NULL, or the size in the first entry is wrong. ecclInvalidUsage:
 * the communicator is still being made. */
ECCL_API ecclResult_t ecclCommGetConnections(ecclComm_t comm, ecclConnectionInfo_t* infos, size_t* count);

/* The collectives whose time ecclCostEstimate() knows. */
typedef enum {
  ecclCollAllReduce = 0,
  ecclCollAllGather = 1,
  ecclCollReduceScatter = 2,
  ecclCollBroadcast = 3,
  ecclCollReduce = 4,
  ecclCollGather = 5,
  ecclCollScatter = 6,
  ecclCollAlltoAll = 7,
  ecclNumCollectives = 8
} ecclCollective_t;

/* *microseconds = what a collective of `comm` is expected to take, with the algorithm that would be chosen. The
 * time begins when all ranks make the call and ends when the last one has its result. It holds for buffers from
 * ecclMemAlloc, and for Broadcast in place. Not collective. Any thread.
 *
 * `count` is what the call takes, in elements. `nranks` > 0: as if only the first `nranks` ranks took part, in
 * a communicator of their own; 0: all.
 *
 * The estimate is a simulation of the schedule by the cost model of ECCL_COST_FILE (docs/cost_model.md).
 * Without that file the model has constants that are not this machine's. It takes 0.1 ms and less for 2 ranks,
 * at most 0.15 s for 64 and at most 2 s for 256, be they on as many hosts or on two cores that all share (an
 * AMD EPYC, blocks of 8 bytes to 10 MB; 2026). */
ECCL_API ecclResult_t ecclCostEstimate(ecclComm_t comm, ecclCollective_t collective, size_t count,
                                       ecclDataType_t datatype, int nranks, double* microseconds);

/* ---- Memory ------------------------------------------------------------------------------------- */

/* *ptr = `size` bytes that the ranks on this host read and write in place, instead of copying through the
 * library's own memory. Every rank that shares memory with this process can access all such memory at any time
 * (docs/security.md). Zeroed, aligned to a page. Any thread. ecclSystemError: there is no memory.
 * With ECCL_DEVICE=cuda it is memory of the GPU that is current in this thread, as of cudaMalloc, not zeroed; and
 * with ECCL_DEVICE=auto, where there is one. ecclUnhandledCudaError: the GPU has no more. */
ECCL_API ecclResult_t ecclMemAlloc(void** ptr, size_t size);
/* Frees it, when all that uses it is complete: of a GPU's memory, too, as it does not always wait for that. NULL is
 * allowed. A forked child shares what its parent had allocated. */
ECCL_API ecclResult_t ecclMemFree(void* ptr);
/* Declares [buff, buff+size) as memory that the collectives of `comm` will use often. *handle names the
 * declaration until ecclCommDeregister or the end of `comm`. The memory stays the caller's. Deregister it
 * before it is freed. */
ECCL_API ecclResult_t ecclCommRegister(ecclComm_t comm, void* buff, size_t size, void** handle);
ECCL_API ecclResult_t ecclCommDeregister(ecclComm_t comm, void* handle);

/* ---- Host streams ------------------------------------------------------------------------------- */

/* Host streams do on a CPU what CUDA streams do on a GPU: a collective with a stream returns when it is queued,
 * and operations of one stream complete in the order of their calls. A short call like one before looks for its
 * peers for a moment (50 us at most; 300 where ranks share cores), and is complete on return if they come.
 * Threads and communicators may share a stream. */
ECCL_API ecclResult_t ecclStreamCreate(ecclStream_t* stream);
/* Waits until everything queued before this call is complete. Returns the first error of it. NULL stands for
 * the calls that this thread made with a NULL stream on non-blocking communicators. For those of one
 * communicator, by any thread, see ecclCommSynchronize. */
ECCL_API ecclResult_t ecclStreamSynchronize(ecclStream_t stream);
/* Polls: ecclSuccess if the stream is drained, ecclInProgress if not, else the error. NULL: as above. */
ECCL_API ecclResult_t ecclStreamQuery(ecclStream_t stream);
/* Synchronizes, then frees. The handle is invalid afterwards, whatever is returned. NULL is refused. */
ECCL_API ecclResult_t ecclStreamDestroy(ecclStream_t stream);

/* ---- Reduction operators ------------------------------------------------------------------------ */

/* *op = an operator for `comm`: the sum of each rank's values times that rank's scalar. The scalar is of type
 * `datatype`, the operator is for calls of that type only, and the scalar may differ per rank.
 * ecclScalarHostImmediate: the scalar is read now. ecclScalarDevice: it is read when an operation runs, so it
 * must stay valid until the operator is destroyed and its operations are complete. A communicator of a GPU takes
 * memory that its GPU can read, of the host what cudaMallocHost gives; another one takes the host's. */
ECCL_API ecclResult_t ecclRedOpCreatePreMulSum(ecclRedOp_t* op, void* scalar, ecclDataType_t datatype,
                                               ecclScalarResidence_t residence, ecclComm_t comm);
/* Ends an operator. Operations already called keep it. Built-in operators are refused. */
ECCL_API ecclResult_t ecclRedOpDestroy(ecclRedOp_t op, ecclComm_t comm);

/* ---- Collectives -------------------------------------------------------------------------------- */

/* In what follows x[n] means that the buffer x has n elements. Every rank of `comm` makes the call. With a NULL
 * stream on a blocking communicator it returns when the result is there; else it returns when it is queued.
 *
 * On GPUs a call that needs new connections waits for the other ranks' calls. On a non-blocking communicator it,
 * or its ecclGroupEnd, then returns ecclInProgress at once. When ecclCommGetAsyncError says ecclSuccess, the call
 * is in its stream, and other calls can be made. These still wait before they return: calls that are being
 * captured, calls with the per-thread default stream, and groups with several streams or communicators.
 *
 * Errors of all of them: ecclInvalidArgument for a type, operator, root or buffer that cannot be, before
 * anything is sent. ecclInvalidUsage: ranks have made different calls. ecclRemoteError: a rank has died, failed
 * or aborted. */
/* recvbuff[count] on every rank = the reduction over ranks of sendbuff[count], element by element.
 * In place: sendbuff == recvbuff. */
ECCL_API ecclResult_t ecclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                    ecclRedOp_t op, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[count] on every rank = sendbuff[count] of `root`. Only the root's sendbuff is read; elsewhere it may
 * be NULL. In place: sendbuff == recvbuff on the root. */
ECCL_API ecclResult_t ecclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                    int root, ecclComm_t comm, ecclStream_t stream);
/* ecclBroadcast in place: buff[count] of every rank becomes that of `root`. */
ECCL_API ecclResult_t ecclBcast(void* buff, size_t count, ecclDataType_t datatype, int root, ecclComm_t comm,
                                ecclStream_t stream);
/* recvbuff[count] on `root` = the reduction over ranks of sendbuff[count]. Elsewhere recvbuff is not touched
 * and may be NULL. In place: sendbuff == recvbuff on the root. */
ECCL_API ecclResult_t ecclReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                 ecclRedOp_t op, int root, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[nranks*sendcount] on every rank: block r is sendbuff[sendcount] of rank r.
 * In place: sendbuff == recvbuff + rank*sendcount. */
ECCL_API ecclResult_t ecclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                    ecclDataType_t datatype, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[recvcount] on each rank = block `rank` of the reduction over ranks of sendbuff[nranks*recvcount].
 * In place: recvbuff == sendbuff + rank*recvcount. */
ECCL_API ecclResult_t ecclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                        ecclDataType_t datatype, ecclRedOp_t op, ecclComm_t comm,
                                        ecclStream_t stream);
/* Block d of rank s's sendbuff[nranks*count] becomes block s of rank d's recvbuff[nranks*count]. Each block has
 * `count` elements. Out of place only. */
ECCL_API ecclResult_t ecclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                   ecclComm_t comm, ecclStream_t stream);
/* recvbuff[nranks*count] on `root`: block r is rank r's sendbuff[count]. Elsewhere recvbuff is not touched and
 * may be NULL. In place on the root: sendbuff == recvbuff + root*count. */
ECCL_API ecclResult_t ecclGather(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                 int root, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[count] on rank r = block r of the root's sendbuff[nranks*count]. Elsewhere sendbuff is not read and
 * may be NULL. In place on the root: recvbuff == sendbuff + root*count. */
ECCL_API ecclResult_t ecclScatter(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                  int root, ecclComm_t comm, ecclStream_t stream);
/* Completes on each rank when every rank has called it. */
ECCL_API ecclResult_t ecclBarrier(ecclComm_t comm, ecclStream_t stream);

/* The calls with one count per rank. Arrays have nranks entries, in elements. Displacements are from the start
 * of the buffer, in elements too. The arrays are read during the call and need not outlive it. */

/* sendcounts[d] elements at sendbuff + sdispls[d] go to rank d, which receives those of rank s at
 * recvbuff + rdispls[s]. Its recvcounts[s] must equal the sendcounts that rank s has for it; a difference is
 * an error. Each rank knows its own row only. Out of place only. */
ECCL_API ecclResult_t ecclAlltoAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                    void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                    ecclDataType_t datatype, ecclComm_t comm, ecclStream_t stream);
/* recvcounts[r] elements of rank r arrive at recvbuff + displs[r] on every rank. sendcount must equal
 * recvcounts[rank], and recvcounts must be the same on all ranks. */
ECCL_API ecclResult_t ecclAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                     const size_t recvcounts[], const size_t displs[], ecclDataType_t datatype,
                                     ecclComm_t comm, ecclStream_t stream);
/* sendbuff holds one block per rank, block r of recvcounts[r] elements, packed in rank order. recvbuff gets the
 * recvcounts[rank] elements of block `rank`, reduced over ranks. recvcounts must be the same on all ranks. */
ECCL_API ecclResult_t ecclReduceScatterv(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                         ecclDataType_t datatype, ecclRedOp_t op, ecclComm_t comm,
                                         ecclStream_t stream);

/* ---- Point to point ----------------------------------------------------------------------------- */

/* Sends sendbuff[count] to rank `peer`. The sends of a pair match the ecclRecv calls of `peer` that name this
 * rank, in their order; counts and types must be equal. A send may wait for its receive. So two ranks that send
 * to each other, or a rank that sends to itself, make both calls in one group: inside a group all sends and
 * receives go on at the same time. */
ECCL_API ecclResult_t ecclSend(const void* sendbuff, size_t count, ecclDataType_t datatype, int peer,
                               ecclComm_t comm, ecclStream_t stream);
/* Receives recvbuff[count] from rank `peer`; see ecclSend. */
ECCL_API ecclResult_t ecclRecv(void* recvbuff, size_t count, ecclDataType_t datatype, int peer, ecclComm_t comm,
                               ecclStream_t stream);

/* ---- Groups ------------------------------------------------------------------------------------- */

/* Calls between ecclGroupStart and the matching ecclGroupEnd of one thread are collected and issued together by
 * the outermost ecclGroupEnd. So operations on several communicators, several sends and receives, and inits
 * cannot deadlock one another. Groups may be nested. One thread may hold several ranks of a communicator in a
 * group.
 *
 * ecclGroupEnd returns when the calls with a NULL stream on blocking communicators are complete; calls with a
 * stream stay queued. It returns the first error of any call in the group. If a call was refused, none is
 * issued. ecclInvalidUsage: no group is open in this thread. */
ECCL_API ecclResult_t ecclGroupStart(void);
ECCL_API ecclResult_t ecclGroupEnd(void);

/* What ecclGroupSimulateEnd() answers. Fill with ECCL_SIM_INFO_INITIALIZER. The layout is ncclSimInfo_t's. */
typedef struct ecclSimInfo_v22200 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  float estimatedTime;  /* microseconds; ECCL_SIM_INFO_UNDEFINED where there is none */
} ecclSimInfo_t;

#define ECCL_SIM_INFO_MAGIC 0x74685283u
#define ECCL_SIM_INFO_UNDEFINED (-1.0f)
#define ECCL_SIM_INFO_INITIALIZER \
  { sizeof(ecclSimInfo_t), ECCL_SIM_INFO_MAGIC, ECCL_CONFIG_VERSION, ECCL_SIM_INFO_UNDEFINED }

/* Ends the outermost group of this thread without issuing its calls, and sets simInfo->estimatedTime to what
 * they are expected to take (see ecclCostEstimate). It is this rank's own part: the sum of a communicator's
 * collectives, and the longer of its sends and its receives; of several communicators the longest. The group
 * ends even if this is an error. ecclInvalidUsage: no group is open, an inner one would end, or the group makes
 * communicators. */
ECCL_API ecclResult_t ecclGroupSimulateEnd(ecclSimInfo_t* simInfo);

/* ---- Settings ----------------------------------------------------------------------------------- */

/* What the settings (docs/settings.md) are in this process, by environment and files, as a communicator that is
 * made now would read them. Keys are their names, "ECCL_ALGO", or NCCL's where the meaning is the same,
 * "NCCL_SHM_DISABLE". Values are text; a secret is not shown. ecclInvalidArgument, of all of these: a pointer is NULL,
 * there is no such setting, or the environment has a setting that is wrong. Any thread, but nobody changes the
 * environment meanwhile. */

/* Names a setting. Static; never freed. */
typedef struct ecclParamHandle* ecclParamHandle_t;
/* *handle = that of the setting `key`. */
ECCL_API ecclResult_t ecclParamBind(ecclParamHandle_t* handle, const char* key);
/* *value = the setting as a number. ecclInvalidArgument also: it is none, or too large for the type. */
ECCL_API ecclResult_t ecclParamGetI8(ecclParamHandle_t handle, int8_t* value);
ECCL_API ecclResult_t ecclParamGetI16(ecclParamHandle_t handle, int16_t* value);
ECCL_API ecclResult_t ecclParamGetI32(ecclParamHandle_t handle, int32_t* value);
ECCL_API ecclResult_t ecclParamGetI64(ecclParamHandle_t handle, int64_t* value);
ECCL_API ecclResult_t ecclParamGetU8(ecclParamHandle_t handle, uint8_t* value);
ECCL_API ecclResult_t ecclParamGetU16(ecclParamHandle_t handle, uint16_t* value);
ECCL_API ecclResult_t ecclParamGetU32(ecclParamHandle_t handle, uint32_t* value);
ECCL_API ecclResult_t ecclParamGetU64(ecclParamHandle_t handle, uint64_t* value);
/* *value = the setting as text, valid until the next call of this function in this thread. */
ECCL_API ecclResult_t ecclParamGetStr(ecclParamHandle_t handle, const char** value);
/* Copies the text, without a NUL, to `value`, which has room for `most` bytes, and sets *length to its bytes.
 * ecclInvalidArgument also: there is not so much room; *length says how much it takes. */
ECCL_API ecclResult_t ecclParamGet(ecclParamHandle_t handle, void* value, int most, int* length);
/* By its name: *value = the text, valid until the next call of this function in this thread; *length = its
 * bytes, without the NUL. */
ECCL_API ecclResult_t ecclParamGetParameter(const char* key, const char** value, int* length);
/* *keys = the names of all settings, *number of them. The table is valid until the next call of this function in
 * this thread, and while the thread is there. */
ECCL_API ecclResult_t ecclParamGetAllParameterKeys(const char*** keys, int* number);
/* Prints all settings to stdout, a line for each. */
ECCL_API void ecclParamDumpAll(void);

#ifdef __cplusplus
}
#endif

#endif /* ECCL_ECCL_H_ */
