/* What is measured: one operation at one size, as one rank sees it. All data are floats; their values are whole
 * numbers so small that a sum is exact in any order.
 *
 * Sizes are those of nccl-tests: the whole message of AllReduce, Broadcast and Send/Recv; the n blocks together
 * of AllGather (its output), ReduceScatter (its input) and AlltoAll. */
#ifndef ECCL_PERF_COMPARE_TASK_H_
#define ECCL_PERF_COMPARE_TASK_H_

#include <stddef.h>

typedef enum {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast, /* root 0, in place: the root's buffer is its input, that of the others their output */
  kAlltoAll,
  kLatency,   /* ping-pong of the pairs (0,1), (2,3)...: each sends its input and receives into its output */
  kBandwidth, /* `window` messages from each even rank to the next, all begun before any is waited for */
  kOperations
} Operation;

typedef struct {
  Operation operation;
  int rank, ranks;
  int window;   /* messages per iteration of kBandwidth */
  int variant;  /* which of the contender's ways is measured */
  size_t count; /* floats of the whole message, or of one block where there are `ranks` of them */
  size_t inputCount, outputCount;
  float *input, *output; /* the same where the contender works in place */
} Task;

/* operation = kOperations if there is none of that name. */
Operation operationNamed(const char* name);
/* Without buffers. */
Task taskOf(Operation operation, int rank, int ranks, size_t bytes);
/* Figures that one iteration yields: its time is divided by this. */
int taskParts(const Task* task);
/* Writes all of this rank's input; the values differ between ranks, places and iterations. */
void taskFill(const Task* task, unsigned iteration);
/* Looks at all of this rank's output, as a program would: where its lines are then is a part of what the next call
 * takes. */
void taskRead(const Task* task);
/* The first wrong place in this rank's output after that iteration; -1 if all is right. */
long taskWrong(const Task* task, unsigned iteration);

#endif
