/* Every function of NCCL 2.30.7, for nccl.h, the library and its tests, each of which says what becomes of a
 * line:
 *
 *   TWIN(name, parameters, arguments)   passes its arguments on to eccl##name
 *   OWN(result, name, parameters)       is written for this library
 *   REFUSED(name, parameters, why)      returns ncclInvalidUsage; `why` is the sentence, after the function's
 * name
 *
 * No include guard: it is included once for each purpose. */

/* Versions and errors */
OWN(ncclResult_t, GetVersion, (int* version))
OWN(const char*, GetErrorString, (ncclResult_t result))
OWN(const char*, GetLastError, (ncclComm_t comm))
OWN(void, ResetDebugInit, (void))

/* Communicators */
TWIN(GetUniqueId, (ncclUniqueId * uniqueId), (uniqueId))
TWIN(CommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank), (comm, nranks, commId, rank))
TWIN(CommInitRankConfig, (ncclComm_t * comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config),
     (comm, nranks, commId, rank, config))
TWIN(CommInitAll, (ncclComm_t * comm, int ndev, const int* devlist), (comm, ndev, devlist))
TWIN(CommInitRankScalable,
     (ncclComm_t * newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds, ncclConfig_t* config),
     (newcomm, nranks, myrank, nId, commIds, config))
TWIN(CommSplit, (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config),
     (comm, color, key, newcomm, config))
TWIN(CommFinalize, (ncclComm_t comm), (comm))
TWIN(CommDestroy, (ncclComm_t comm), (comm))
TWIN(CommAbort, (ncclComm_t comm), (comm))
TWIN(CommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError), (comm, asyncError))
TWIN(CommCount, (const ncclComm_t comm, int* count), (comm, count))
TWIN(CommCuDevice, (const ncclComm_t comm, int* device), (comm, device))
TWIN(CommUserRank, (const ncclComm_t comm, int* rank), (comm, rank))
REFUSED(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId),
        "ECCL's communicators cannot grow; make a new one with ncclGetUniqueId and ncclCommInitRank")
REFUSED(CommGrow,
        (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
         ncclConfig_t* config),
        "ECCL's communicators cannot grow; make a new one with ncclGetUniqueId and ncclCommInitRank")
REFUSED(CommShrink,
        (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
         ncclConfig_t* config, int shrinkFlags),
        "ECCL's communicators cannot shrink; leave ranks out with ncclCommSplit, or make a new one")
REFUSED(CommRevoke, (ncclComm_t comm, int revokeFlags),
        "ECCL's communicators cannot be revoked; end it with ncclCommAbort")
TWIN(CommSuspend, (ncclComm_t comm, int flags), (comm, flags))
TWIN(CommResume, (ncclComm_t comm), (comm))
TWIN(CommMemStats, (ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value), (comm, stat, value))
TWIN(CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* props), (comm, props))

/* Memory */
TWIN(MemAlloc, (void** ptr, size_t size), (ptr, size))
TWIN(MemFree, (void* ptr), (ptr))
TWIN(CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle), (comm, buff, size, handle))
TWIN(CommDeregister, (const ncclComm_t comm, void* handle), (comm, handle))
OWN(ncclResult_t, CommWindowRegister,
    (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags))
OWN(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win))
REFUSED(WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr),
        "ECCL has no windows, so no handle can be one")

/* Operators */
TWIN(RedOpCreatePreMulSum,
     (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
      ncclComm_t comm),
     (op, scalar, datatype, residence, comm))
TWIN(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm))

/* Collectives */
TWIN(AllReduce,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
      ncclComm_t comm, cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, op, comm, stream))
TWIN(Broadcast,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, root, comm, stream))
TWIN(Bcast, (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream),
     (buff, count, datatype, root, comm, stream))
TWIN(Reduce,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root,
      ncclComm_t comm, cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, op, root, comm, stream))
TWIN(AllGather,
     (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, recvbuff, sendcount, datatype, comm, stream))
TWIN(ReduceScatter,
     (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
      ncclComm_t comm, cudaStream_t stream),
     (sendbuff, recvbuff, recvcount, datatype, op, comm, stream))
TWIN(AlltoAll,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, comm, stream))
TWIN(Gather,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, root, comm, stream))
TWIN(Scatter,
     (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, recvbuff, count, datatype, root, comm, stream))

/* Point to point */
TWIN(Send,
     (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, count, datatype, peer, comm, stream))
TWIN(Recv,
     (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, cudaStream_t stream),
     (recvbuff, count, datatype, peer, comm, stream))
REFUSED(PutSignal,
        (const void* localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin,
         size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
        "ECCL has no one-sided calls; use ncclSend and ncclRecv")
REFUSED(Signal, (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream),
        "ECCL has no one-sided calls; use ncclSend and ncclRecv")
REFUSED(WaitSignal, (int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm, cudaStream_t stream),
        "ECCL has no one-sided calls; use ncclSend and ncclRecv")

/* Groups */
TWIN(GroupStart, (void), ())
TWIN(GroupEnd, (void), ())
TWIN(GroupSimulateEnd, (ncclSimInfo_t * simInfo), (simInfo))

/* Parameters */
TWIN(ParamBind, (ncclParamHandle_t * out, const char* key), (out, key))
TWIN(ParamGetI8, (ncclParamHandle_t h, int8_t* out), (h, out))
TWIN(ParamGetI16, (ncclParamHandle_t h, int16_t* out), (h, out))
TWIN(ParamGetI32, (ncclParamHandle_t h, int32_t* out), (h, out))
TWIN(ParamGetI64, (ncclParamHandle_t h, int64_t* out), (h, out))
TWIN(ParamGetU8, (ncclParamHandle_t h, uint8_t* out), (h, out))
TWIN(ParamGetU16, (ncclParamHandle_t h, uint16_t* out), (h, out))
TWIN(ParamGetU32, (ncclParamHandle_t h, uint32_t* out), (h, out))
TWIN(ParamGetU64, (ncclParamHandle_t h, uint64_t* out), (h, out))
TWIN(ParamGetStr, (ncclParamHandle_t h, const char** out), (h, out))
TWIN(ParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len), (h, out, maxLen, len))
TWIN(ParamGetParameter, (const char* key, const char** value, int* valueLen), (key, value, valueLen))
TWIN(ParamGetAllParameterKeys, (const char*** table, int* tableLen), (table, tableLen))
OWN(void, ParamDumpAll, (void))

/* What belongs to device code */
REFUSED(DevCommCreate,
        (ncclComm_t comm, const struct ncclDevCommRequirements* reqs, struct ncclDevComm* outDevComm),
        "ECCL has no device API")
REFUSED(DevCommDestroy, (ncclComm_t comm, const struct ncclDevComm* devComm), "ECCL has no device API")
OWN(ncclTeam_t, TeamWorld, (ncclComm_t comm))
OWN(ncclTeam_t, TeamLsa, (ncclComm_t comm))
OWN(ncclTeam_t, TeamRail, (ncclComm_t comm))
OWN(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank))
OWN(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank))
OWN(int, LLA2ACalcSlots, (int maxElts, int maxEltSize))
REFUSED(LLA2ACreateRequirement,
        (int nBlocks, int nSlots, struct ncclLLA2AHandle* outHandle,
         struct ncclDevResourceRequirements* outReq),
        "ECCL has no device API")
REFUSED(LsaBarrierCreateRequirement,
        (ncclTeam_t team, int nBarriers, struct ncclLsaBarrierHandle* outHandle,
         struct ncclDevResourceRequirements* outReq),
        "ECCL has no device API")
REFUSED(GinBarrierCreateRequirement,
        (ncclComm_t comm, ncclTeam_t team, int nBarriers, struct ncclGinBarrierHandle* outHandle,
         struct ncclDevResourceRequirements* outReq),
        "ECCL has no device API")
REFUSED(GinOutboxCreateRequirement,
        (int nBlocks, int size_log2, struct ncclGinOutboxHandle* outHandle,
         struct ncclDevResourceRequirements* outReq),
        "ECCL has no device API")
REFUSED(GinInboxA2ACreateRequirement,
        (ncclTeam_t peers, int nBlocks, int size_log2, struct ncclGinInboxA2AHandle* outHandle,
         struct ncclDevResourceRequirements* outReq),
        "ECCL has no device API")
REFUSED(GetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void** outPtr),
        "ECCL has no device API")
REFUSED(GetMultimemDevicePointer,
        (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void** outPtr),
        "ECCL has no device API")
REFUSED(GetLsaDevicePointer, (ncclWindow_t window, size_t offset, int lsaRank, void** outPtr),
        "ECCL has no device API")
REFUSED(GetPeerDevicePointer, (ncclWindow_t window, size_t offset, int peer, void** outPtr),
        "ECCL has no device API")
