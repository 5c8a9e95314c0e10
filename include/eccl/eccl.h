/* ECCL: collective communication with verified schedules.
 *
 * The C API. It has the shape of NCCL's: the same calls, argument orders, enum values and struct
 * layouts, with the prefix `eccl`.
 *
 * Conventions that hold for every call
 *  - Counts are in elements, never bytes, unless a name says bytes. 0 is legal; 2^31 and above work.
 *  - Buffers belong to the caller and must stay valid until the operation has completed: with a NULL stream on
 *    a blocking communicator when the call returns, or in a group when the outermost ecclGroupEnd does;
 *    otherwise when the stream has drained.
 *  - Any thread may make any call at any time, on any handle. Which of two calls made at the same time comes
 *    first is not defined; as every rank has to make the same collectives in the same order, that is for one
 *    thread per communicator to do. A call that ends an object (ecclCommDestroy, ecclCommAbort,
 *    ecclStreamDestroy) waits for calls under way on it; from then on its handle is refused. Handles are
 *    numbers in the shape of pointers: nothing lies behind them.
 *  - Every failure returns a code other than ecclSuccess; ecclGetLastError() gives the sentence that says
 *    what happened, to whom and what to do.
 */
#ifndef ECCL_ECCL_H_
#define ECCL_ECCL_H_

#include <limits.h>
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

typedef struct ecclComm* ecclComm_t;     /* one rank's membership in a communicator */
typedef struct ecclStream* ecclStream_t; /* a host stream: an ordered queue; NULL is the default stream */

#define ECCL_UNIQUE_ID_BYTES 128
/* Names a communicator to be made. Opaque; copy it to every rank by any means (it holds a secret). */
typedef struct {
  char internal[ECCL_UNIQUE_ID_BYTES];
} ecclUniqueId;

typedef enum {
  ecclSuccess = 0,
  ecclUnhandledCudaError = 1,
  ecclSystemError = 2,     /* a call into the operating system failed */
  ecclInternalError = 3,   /* a bug in ECCL */
  ecclInvalidArgument = 4, /* a value is wrong */
  ecclInvalidUsage = 5,    /* a call is wrong here, or ranks disagree about a call or a setting */
  ecclRemoteError = 6,     /* another rank died, aborted or failed */
  ecclInProgress = 7,      /* a non-blocking operation goes on; poll ecclCommGetAsyncError */
  ecclTimeout = 8,         /* something that had a time limit passed it */
  ecclNumResults = 9
} ecclResult_t;

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

typedef enum {
  ecclSum = 0,
  ecclProd = 1,
  ecclMax = 2,
  ecclMin = 3,
  ecclAvg = 4,    /* sum divided by the number of ranks; integers divide with truncation */
  ecclNumOps = 5, /* operators made by ecclRedOpCreatePreMulSum start here */
  ecclMaxRedOp = 0x7fffffff
} ecclRedOp_t;

typedef enum {
  ecclScalarDevice = 0,       /* the scalar lives in memory that is read when the operation runs */
  ecclScalarHostImmediate = 1 /* the scalar is read during the create call */
} ecclScalarResidence_t;

/* Fill with ECCL_CONFIG_INITIALIZER, then set what differs. The layout is ncclConfig_t's (96 bytes).
 * Fields that name GPU resources are accepted and have no effect on a host communicator. */
typedef struct ecclConfig_v23000 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int blocking;         /* 1 (default): calls complete in the caller; 0: poll ecclCommGetAsyncError */
  int cgaClusterSize;
  int minCTAs;         /* least number of channels */
  int maxCTAs;         /* greatest number of channels */
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

/* *version = X*10000 + Y*100 + Z of the library that is loaded. */
ECCL_API ecclResult_t ecclGetVersion(int* version);
/* A constant string for a code; never NULL. */
ECCL_API const char* ecclGetErrorString(ecclResult_t result);
/* The last failure's full sentence: `comm`'s if comm is not NULL, else the calling thread's. "" if none.
 * Valid until the next ECCL call in this thread. */
ECCL_API const char* ecclGetLastError(ecclComm_t comm);

/* ---- Making and ending communicators ------------------------------------------------------------ */

/* Makes an id and starts listening for the ranks in this process, which must stay alive until all have
 * joined. With ECCL_COMM_ID=host:port (and a secret in ECCL_COMM_SECRET or ECCL_COMM_SECRET_FILE) the id
 * is that address and rank 0 listens. */
ECCL_API ecclResult_t ecclGetUniqueId(ecclUniqueId* id);
/* Joins as `rank` of `nranks`; returns when all have joined or the time limit ECCL_INIT_TIMEOUT (seconds)
 * passes, with an error that names the ranks that are missing. */
ECCL_API ecclResult_t ecclCommInitRank(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank);
/* As above, with options; config may be NULL. With blocking=0 the communicator is usable once
 * ecclCommGetAsyncError reports ecclSuccess. */
ECCL_API ecclResult_t ecclCommInitRankConfig(ecclComm_t* comm, int nranks, ecclUniqueId id, int rank,
                                             ecclConfig_t* config);
/* Makes `ndev` ranks in this process, comms[i] being rank i. devlist is accepted for compatibility. */
ECCL_API ecclResult_t ecclCommInitAll(ecclComm_t* comms, int ndev, const int* devlist);

#define ECCL_SPLIT_NOCOLOR (-1)
/* Collective over `comm`. Ranks of equal color (>= 0) make a new communicator, ordered by key, then by
 * rank; ECCL_SPLIT_NOCOLOR takes part and gets *newcomm = NULL. Splits of one communicator are told apart by
 * their order, which has to be the same on all ranks, also within a group. With a config of blocking=0 the
 * call returns at once; without a color it then returns ecclSuccess, and `newcomm` is not written afterwards.
 */
ECCL_API ecclResult_t ecclCommSplit(ecclComm_t comm, int color, int key, ecclComm_t* newcomm,
                                    ecclConfig_t* config);
/* Waits for all outstanding work of this rank, and until its messages have been received. Collective: this rank
 * makes no call afterwards. ecclRemoteError if a message never will be received, as its receiver has been
 * finalized or destroyed; the sentence says which. */
ECCL_API ecclResult_t ecclCommFinalize(ecclComm_t comm);
/* Waits for other calls under way on `comm`, finalizes if that was not done, and frees. The handle is invalid
 * afterwards, whatever is returned. Errors: those of ecclCommFinalize. */
ECCL_API ecclResult_t ecclCommDestroy(ecclComm_t comm);
/* Ends every wait on this communicator within 100 ms, tells the other ranks, and frees. Any thread. */
ECCL_API ecclResult_t ecclCommAbort(ecclComm_t comm);
/* *asyncError = what went wrong in the background, ecclInProgress or ecclSuccess. Any thread. */
ECCL_API ecclResult_t ecclCommGetAsyncError(ecclComm_t comm, ecclResult_t* asyncError);
/* Waits until every call made on `comm` with a NULL stream, by any thread, is complete; returns the first error
 * of them. Only non-blocking communicators have something to wait for. */
ECCL_API ecclResult_t ecclCommSynchronize(ecclComm_t comm);
ECCL_API ecclResult_t ecclCommCount(ecclComm_t comm, int* count);
ECCL_API ecclResult_t ecclCommUserRank(ecclComm_t comm, int* rank);

/* ---- Topology ----------------------------------------------------------------------------------- */

/* What the hosts of `comm` are made of and where each rank runs, as JSON (docs/cluster.schema.json), the same
 * on every rank and through the life of `comm`. In two calls, so that all memory is the caller's: with text =
 * NULL, *size = the bytes it needs, a final NUL included; then, with as many or more at `text`, the text, and
 * *size again. With fewer nothing is written: ecclInvalidArgument, and *size says how many. ecclInvalidUsage in
 * a build without JSON, or where hosts differ and another rank's build has none. Not collective. Any thread. */
ECCL_API ecclResult_t ecclTopologyExport(ecclComm_t comm, char* text, size_t* size);

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

/* *microseconds = what a collective of `comm` is expected to take: from when all ranks make the call until the
 * last one has its result, in memory of ecclMemAlloc (Broadcast in place), with what is chosen for it. `count`
 * is what the call takes. nranks > 0: if only the first `nranks` ranks took part, in a communicator of their
 * own; 0: all. A simulation of the schedule by the cost model of ECCL_COST_FILE (docs/cost_model.md), else by
 * constants that are not this machine's. Takes 0.1 ms and less for 2 ranks, at most 0.15 s for 64 and at most 2
 * s for 256, be they on as many hosts or on two cores that all share (an AMD EPYC, blocks of 8 bytes to 10 MB;
 * 2026). Not collective. Any thread. */
ECCL_API ecclResult_t ecclCostEstimate(ecclComm_t comm, ecclCollective_t collective, size_t count,
                                       ecclDataType_t datatype, int nranks, double* microseconds);

/* ---- Memory ------------------------------------------------------------------------------------- */

/* Memory that ranks of this process's communicators on this host read and write in place, instead of copying
 * through the library's own. Zeroed, aligned to a page. Free with ecclMemFree, not before the calls that use it
 * are complete. A forked child shares what its parent had allocated. */
ECCL_API ecclResult_t ecclMemAlloc(void** ptr, size_t size);
ECCL_API ecclResult_t ecclMemFree(void* ptr);
/* Declares [buff, buff+size) as memory the collectives will use often. Deregister before freeing it. */
ECCL_API ecclResult_t ecclCommRegister(ecclComm_t comm, void* buff, size_t size, void** handle);
ECCL_API ecclResult_t ecclCommDeregister(ecclComm_t comm, void* handle);

/* ---- Host streams ------------------------------------------------------------------------------- */

ECCL_API ecclResult_t ecclStreamCreate(ecclStream_t* stream);
/* Waits until everything queued before this call is complete; returns the first error of it. NULL stands for
 * the calls that this thread made with a NULL stream on non-blocking communicators; for those of one
 * communicator, by any thread, see ecclCommSynchronize. */
ECCL_API ecclResult_t ecclStreamSynchronize(ecclStream_t stream);
/* ecclSuccess if the stream is drained, ecclInProgress if not, else the error. NULL: as above. */
ECCL_API ecclResult_t ecclStreamQuery(ecclStream_t stream);
/* Synchronizes, then frees. */
ECCL_API ecclResult_t ecclStreamDestroy(ecclStream_t stream);

/* ---- Reduction operators ------------------------------------------------------------------------ */

/* *op = sum of each rank's values times that rank's scalar (of type datatype; may differ per rank). */
ECCL_API ecclResult_t ecclRedOpCreatePreMulSum(ecclRedOp_t* op, void* scalar, ecclDataType_t datatype,
                                               ecclScalarResidence_t residence, ecclComm_t comm);
ECCL_API ecclResult_t ecclRedOpDestroy(ecclRedOp_t op, ecclComm_t comm);

/* ---- Collectives -------------------------------------------------------------------------------- */

/* recvbuff[count] = reduction over ranks of sendbuff[count]. In place: sendbuff == recvbuff. */
ECCL_API ecclResult_t ecclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                    ecclRedOp_t op, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[count] on every rank = sendbuff[count] of root. sendbuff is read on root only. */
ECCL_API ecclResult_t ecclBroadcast(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                    int root, ecclComm_t comm, ecclStream_t stream);
/* ecclBroadcast in place. */
ECCL_API ecclResult_t ecclBcast(void* buff, size_t count, ecclDataType_t datatype, int root, ecclComm_t comm,
                                ecclStream_t stream);
/* recvbuff[count] on root = reduction; recvbuff is not touched elsewhere and may be NULL there. */
ECCL_API ecclResult_t ecclReduce(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                 ecclRedOp_t op, int root, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[nranks*sendcount]: block r is rank r's sendbuff. In place: sendbuff == recvbuff + rank*sendcount. */
ECCL_API ecclResult_t ecclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                    ecclDataType_t datatype, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[recvcount] = block `rank` of the reduction of sendbuff[nranks*recvcount].
 * In place: recvbuff == sendbuff + rank*recvcount. */
ECCL_API ecclResult_t ecclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                        ecclDataType_t datatype, ecclRedOp_t op, ecclComm_t comm,
                                        ecclStream_t stream);
/* Block d of rank s's sendbuff[nranks*count] becomes block s of rank d's recvbuff[nranks*count].
 * Out of place only. */
ECCL_API ecclResult_t ecclAlltoAll(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                   ecclComm_t comm, ecclStream_t stream);
/* recvbuff[nranks*count] on root: block r is rank r's sendbuff[count]. */
ECCL_API ecclResult_t ecclGather(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                 int root, ecclComm_t comm, ecclStream_t stream);
/* recvbuff[count] on rank r = block r of root's sendbuff[nranks*count]. */
ECCL_API ecclResult_t ecclScatter(const void* sendbuff, void* recvbuff, size_t count, ecclDataType_t datatype,
                                  int root, ecclComm_t comm, ecclStream_t stream);
/* Completes when every rank has called it. */
ECCL_API ecclResult_t ecclBarrier(ecclComm_t comm, ecclStream_t stream);

/* The calls with one count per rank. Arrays have nranks entries, in elements; displacements are from the
 * start of the buffer; the arrays are read during the call. */

/* sendcounts[d] elements at sendbuff + sdispls[d] go to rank d, which receives them at
 * recvbuff + rdispls[s] and must have passed recvcounts[s] equal to them. Each rank knows its own row only. */
ECCL_API ecclResult_t ecclAlltoAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[],
                                    void* recvbuff, const size_t recvcounts[], const size_t rdispls[],
                                    ecclDataType_t datatype, ecclComm_t comm, ecclStream_t stream);
/* recvcounts[r] elements of rank r arrive at recvbuff + displs[r] everywhere; sendcount must equal
 * recvcounts[rank], and recvcounts must be equal on all ranks. */
ECCL_API ecclResult_t ecclAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff,
                                     const size_t recvcounts[], const size_t displs[], ecclDataType_t datatype,
                                     ecclComm_t comm, ecclStream_t stream);
/* sendbuff holds one block per rank, block r of recvcounts[r] elements, packed in rank order; recvbuff
 * gets recvcounts[rank] reduced elements. recvcounts must be equal on all ranks. */
ECCL_API ecclResult_t ecclReduceScatterv(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                         ecclDataType_t datatype, ecclRedOp_t op, ecclComm_t comm,
                                         ecclStream_t stream);

/* ---- Point to point ----------------------------------------------------------------------------- */

/* Matches, in order, the ecclRecv calls of `peer` that name this rank; counts and types must be equal.
 * Inside a group, all sends and receives go on at the same time. */
ECCL_API ecclResult_t ecclSend(const void* sendbuff, size_t count, ecclDataType_t datatype, int peer,
                               ecclComm_t comm, ecclStream_t stream);
ECCL_API ecclResult_t ecclRecv(void* recvbuff, size_t count, ecclDataType_t datatype, int peer, ecclComm_t comm,
                               ecclStream_t stream);

/* ---- Groups ------------------------------------------------------------------------------------- */

/* Calls between ecclGroupStart and the matching ecclGroupEnd of one thread are issued together by the
 * outermost ecclGroupEnd: operations on several communicators, and inits, cannot deadlock one another. It
 * returns when those with a NULL stream on blocking communicators are complete; one thread may hold several
 * ranks of a communicator in the group. Calls with a stream stay queued. If a call is refused, none is issued.
 */
ECCL_API ecclResult_t ecclGroupStart(void);
ECCL_API ecclResult_t ecclGroupEnd(void);

/* The layout is ncclSimInfo_t's. */
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

/* Ends the outermost group of this thread without issuing its calls: simInfo->estimatedTime = what they are
 * expected to take (see ecclCostEstimate), by the rank's own part: the sum of a communicator's collectives, and
 * the longer of its sends and its receives; the longest of several communicators. The group ends even if this
 * is an error. */
ECCL_API ecclResult_t ecclGroupSimulateEnd(ecclSimInfo_t* simInfo);

#ifdef __cplusplus
}
#endif

#endif /* ECCL_ECCL_H_ */
