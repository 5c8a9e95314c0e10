/* A tool that takes the place of one of NCCL's functions, counts its calls, and passes them on by the strong name. */
#include <nccl.h>
#include <stdio.h>

static int calls = 0;

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  ++calls;
  return pncclAllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
}

int main(void) {
  ncclUniqueId id;
  ncclComm_t comm;
  float in = 7, out = 0;
  const int failed = ncclGetUniqueId(&id) != ncclSuccess || ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess ||
                     ncclAllReduce(&in, &out, 1, ncclFloat, ncclSum, comm, NULL) != ncclSuccess ||
                     ncclCommDestroy(comm) != ncclSuccess;
  printf("%d call, the sum is %g%s%s\n", calls, out, failed ? ": " : "", failed ? ncclGetLastError(NULL) : "");
  return !failed && calls == 1 && out == 7 ? 0 : 1;
}
