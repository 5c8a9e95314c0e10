/* A program that is linked to libeccl.so and to libnccl.so.2, and uses both names for the same things: there is
 * one core. Rank 0 and rank 1 are this thread's; what one name begins, the other goes on with and ends. */
#include <eccl/eccl.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, int line, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "%s:%d: failed: %s\n  eccl: %s\n  nccl: %s\n", __FILE__, line, what, ecclGetLastError(NULL),
          ncclGetLastError(NULL));
}
#define EXPECT(condition) expect(condition, __LINE__, #condition)

/* The same communicator by the other name. */
static ncclComm_t asNccl(ecclComm_t comm) {
  return (ncclComm_t)comm;
}
static ecclComm_t asEccl(ncclComm_t comm) {
  return (ecclComm_t)comm;
}

/* Made by ecclCommInitRank, used by ncclAllReduce. */
static void madeByEccl(void) {
  ecclUniqueId id;
  ecclComm_t comms[2] = {NULL, NULL};
  float data[2] = {1, 2};
  EXPECT(ecclGetUniqueId(&id) == ecclSuccess);
  EXPECT(ecclGroupStart() == ecclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT(ecclCommInitRank(&comms[rank], 2, id, rank) == ecclSuccess);
  EXPECT(ecclGroupEnd() == ecclSuccess);
  EXPECT(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT(ncclAllReduce(&data[rank], &data[rank], 1, ncclFloat, ncclSum, asNccl(comms[rank]), NULL) ==
           ncclSuccess);
  }
  EXPECT(ncclGroupEnd() == ncclSuccess);
  EXPECT(data[0] == 3 && data[1] == 3);
  for (int rank = 0; rank < 2; ++rank) EXPECT(ncclCommDestroy(asNccl(comms[rank])) == ncclSuccess);
  EXPECT(ecclCommDestroy(comms[0]) == ecclInvalidArgument); /* it is gone by either name */
}

/* Made by ncclCommInitRank, used by ecclAllReduce on a stream. */
static void madeByNccl(void) {
  ncclUniqueId id;
  ncclComm_t comms[2] = {NULL, NULL};
  ecclStream_t stream = NULL;
  float data[2] = {10, 20};
  EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
  EXPECT(ecclStreamCreate(&stream) == ecclSuccess);
  EXPECT(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT(ncclCommInitRank(&comms[rank], 2, id, rank) == ncclSuccess);
  EXPECT(ncclGroupEnd() == ncclSuccess);
  EXPECT(ecclGroupStart() == ecclSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT(ecclAllReduce(&data[rank], &data[rank], 1, ecclFloat, ecclSum, asEccl(comms[rank]), stream) ==
           ecclSuccess);
  }
  EXPECT(ecclGroupEnd() == ecclSuccess);
  EXPECT(ecclStreamSynchronize(stream) == ecclSuccess);
  EXPECT(data[0] == 30 && data[1] == 30);
  EXPECT(ecclStreamDestroy(stream) == ecclSuccess);
  for (int rank = 0; rank < 2; ++rank) EXPECT(ecclCommDestroy(asEccl(comms[rank])) == ecclSuccess);
  EXPECT(ncclCommDestroy(comms[1]) == ncclInvalidArgument);
}

/* Within one communicator and one group: each rank by another name, opened by one name and closed by the other.
 */
static void mixed(void) {
  ncclUniqueId id;
  ecclUniqueId same;
  ecclComm_t first = NULL;
  ncclComm_t second = NULL;
  ncclRedOp_t ofNccl = ncclSum;
  ecclRedOp_t ofEccl = ecclSum;
  double data[2] = {3, 5}, twice = 2, threeTimes = 3;
  void* memory = NULL;
  EXPECT(ncclGetUniqueId(&id) == ncclSuccess);
  memcpy(&same, &id, sizeof same);
  EXPECT(ecclGroupStart() == ecclSuccess);
  EXPECT(ecclCommInitRank(&first, 2, same, 0) == ecclSuccess);
  EXPECT(ncclCommInitRank(&second, 2, id, 1) == ncclSuccess);
  EXPECT(ncclGroupEnd() == ncclSuccess);
  EXPECT(ncclGroupStart() == ncclSuccess);
  EXPECT(ncclAllReduce(&data[0], &data[0], 1, ncclDouble, ncclSum, asNccl(first), NULL) == ncclSuccess);
  EXPECT(ecclAllReduce(&data[1], &data[1], 1, ecclDouble, ecclSum, asEccl(second), NULL) == ecclSuccess);
  EXPECT(ecclGroupEnd() == ecclSuccess);
  EXPECT(data[0] == 8 && data[1] == 8);
  /* Operators and memory are those of both names, too. */
  EXPECT(ncclRedOpCreatePreMulSum(&ofNccl, &twice, ncclDouble, ncclScalarHostImmediate, asNccl(first)) ==
         ncclSuccess);
  EXPECT(ecclRedOpCreatePreMulSum(&ofEccl, &threeTimes, ecclDouble, ecclScalarHostImmediate, asEccl(second)) ==
         ecclSuccess);
  EXPECT(ecclGroupStart() == ecclSuccess);
  EXPECT(ecclAllReduce(&data[0], &data[0], 1, ecclDouble, (ecclRedOp_t)ofNccl, first, NULL) == ecclSuccess);
  EXPECT(ncclAllReduce(&data[1], &data[1], 1, ncclDouble, (ncclRedOp_t)ofEccl, second, NULL) == ncclSuccess);
  EXPECT(ncclGroupEnd() == ncclSuccess);
  EXPECT(data[0] == 40 && data[1] == 40);
  EXPECT(ecclRedOpDestroy((ecclRedOp_t)ofNccl, first) == ecclSuccess);
  EXPECT(ncclRedOpDestroy((ncclRedOp_t)ofEccl, second) == ncclSuccess);
  EXPECT(ecclMemAlloc(&memory, 4096) == ecclSuccess);
  EXPECT(ncclMemFree(memory) == ncclSuccess);
  EXPECT(ncclCommAbort(asNccl(first)) == ncclSuccess);
  EXPECT(ecclCommAbort(asEccl(second)) == ecclSuccess);
}

int main(void) {
  madeByEccl();
  madeByNccl();
  mixed();
  puts(failures == 0 ? "passed" : "failed");
  return failures == 0 ? 0 : 1;
}
