/* ECCL in the loop: `eccl_loop` with memory that ranks share, `eccl_loop plain` with ordinary memory. */
#include <eccl/eccl.h>

#include "loop.h"

static ecclComm_t comm = NULL;
static ecclStream_t stream = NULL; /* of groups, whose end does not wait for them */

static void check(ecclResult_t result) {
  if (result != ecclSuccess) loopFail("ECCL: %s", ecclGetLastError(comm));
}

static float* allocate(size_t bytes) {
  void* memory = NULL;
  check(ecclMemAlloc(&memory, bytes));
  return memory;
}

static void release(float* buffer) {
  check(ecclMemFree(buffer));
}

static void latency(const Task* t, int peer) {
  if (t->rank % 2 == 0) check(ecclSend(t->input, t->count, ecclFloat32, peer, comm, NULL));
  check(ecclRecv(t->output, t->count, ecclFloat32, peer, comm, NULL));
  if (t->rank % 2 == 1) check(ecclSend(t->input, t->count, ecclFloat32, peer, comm, NULL));
}

static void bandwidth(const Task* t, int peer) {
  check(ecclGroupStart());
  for (int i = 0; i < t->window; ++i) {
    if (t->rank % 2 == 0) {
      check(ecclSend(t->input, t->count, ecclFloat32, peer, comm, stream));
    } else {
      check(ecclRecv(t->output, t->count, ecclFloat32, peer, comm, stream));
    }
  }
  check(ecclGroupEnd());
  check(ecclStreamSynchronize(stream));
}

static void call(const Task* t) {
  const size_t n = t->count;
  switch (t->operation) {
    case kAllReduce:
      check(ecclAllReduce(t->input, t->output, n, ecclFloat32, ecclSum, comm, NULL));
      break;
    case kAllGather:
      check(ecclAllGather(t->input, t->output, n, ecclFloat32, comm, NULL));
      break;
    case kReduceScatter:
      check(ecclReduceScatter(t->input, t->output, n, ecclFloat32, ecclSum, comm, NULL));
      break;
    case kBroadcast:
      check(ecclBcast(t->rank == 0 ? t->input : t->output, n, ecclFloat32, 0, comm, NULL));
      break;
    case kAlltoAll:
      check(ecclAlltoAll(t->input, t->output, n, ecclFloat32, comm, NULL));
      break;
    case kLatency:
      latency(t, t->rank ^ 1);
      break;
    case kBandwidth:
      bandwidth(t, t->rank ^ 1);
      break;
    case kOperations:
      break;
  }
}

int main(int argc, char** argv) {
  (void)argv;
  Loop loop = loopOpen();
  ecclUniqueId id;
  check(ecclGetUniqueId(&id));
  check(ecclCommInitRank(&comm, loop.ranks, id, loop.rank));
  check(ecclStreamCreate(&stream));
  const Contender shared = {.allocate = allocate, .release = release, .call = call};
  const Contender plain = {.allocate = loopAllocate, .release = loopRelease, .call = call};
  loopRun(&loop, argc > 1 ? &plain : &shared);
  check(ecclStreamDestroy(stream));
  check(ecclCommDestroy(comm));
  return 0;
}
