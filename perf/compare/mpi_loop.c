/* MPI in the loop; compiled once for each implementation. */
#include <mpi.h>

#include "loop.h"

static void latency(const Task* t, int count, int peer) {
  if (t->rank % 2 == 0) MPI_Send(t->input, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
  MPI_Recv(t->output, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (t->rank % 2 == 1) MPI_Send(t->input, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD);
}

static void bandwidth(const Task* t, int count, int peer) {
  MPI_Request requests[t->window];
  for (int i = 0; i < t->window; ++i) {
    if (t->rank % 2 == 0) {
      MPI_Isend(t->input, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, &requests[i]);
    } else {
      MPI_Irecv(t->output, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, &requests[i]);
    }
  }
  MPI_Waitall(t->window, requests, MPI_STATUSES_IGNORE);
}

/* Errors need no check: MPI ends the job by default. */
static void call(const Task* t) {
  const int n = (int)t->count;
  switch (t->operation) {
    case kAllReduce:
      MPI_Allreduce(t->input, t->output, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kAllGather:
      MPI_Allgather(t->input, n, MPI_FLOAT, t->output, n, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case kReduceScatter:
      MPI_Reduce_scatter_block(t->input, t->output, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      break;
    case kBroadcast:
      MPI_Bcast(t->rank == 0 ? t->input : t->output, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
      break;
    case kAlltoAll:
      MPI_Alltoall(t->input, n, MPI_FLOAT, t->output, n, MPI_FLOAT, MPI_COMM_WORLD);
      break;
    case kLatency:
      latency(t, n, t->rank ^ 1);
      break;
    case kBandwidth:
      bandwidth(t, n, t->rank ^ 1);
      break;
    case kOperations:
      break;
  }
}

int main(int argc, char** argv) {
  Loop loop = loopOpen();
  MPI_Init(&argc, &argv);
  const Contender contender = {.allocate = loopAllocate, .release = loopRelease, .call = call};
  loopRun(&loop, &contender);
  MPI_Finalize();
  return 0;
}
