#include "task.h"

#include <string.h>

/* A window holds at most this much, so that it ends in reasonable time, but never less than two messages. */
enum { kWindow = 16, kWindowBytes = 64 << 20 };

Operation operationNamed(const char* name) {
  static const char* const names[kOperations] = {"all_reduce",        "all_gather", "reduce_scatter",
                                                 "broadcast",         "alltoall",   "sendrecv_latency",
                                                 "sendrecv_bandwidth"};
  int operation = 0;
  while (operation < kOperations && strcmp(name, names[operation]) != 0) ++operation;
  return (Operation)operation;
}

Task taskOf(Operation operation, int rank, int ranks, size_t bytes) {
  const size_t floats = bytes / sizeof(float);
  Task task = {.operation = operation, .rank = rank, .ranks = ranks, .count = floats};
  if (operation == kAllGather || operation == kReduceScatter || operation == kAlltoAll) {
    task.count = floats / (size_t)ranks;
  }
  task.inputCount = operation == kAllGather ? task.count : floats;
  task.outputCount = operation == kReduceScatter ? task.count : floats;
  const size_t fitting = kWindowBytes / bytes;
  task.window = fitting > kWindow ? kWindow : fitting < 2 ? 2 : (int)fitting;
  return task;
}

int taskParts(const Task* task) {
  return task->operation == kLatency ? 2 : task->operation == kBandwidth ? task->window : 1;
}

/* A hash without a short period, so that exchanged blocks are noticed; 0 to 127. */
static inline float value(unsigned seed, unsigned place) {
  return (float)(((place + seed) * 2654435761u) >> 25);
}

static unsigned seedOf(int rank, unsigned iteration) {
  return 7919u * (unsigned)rank + 104729u * iteration;
}

void taskFill(const Task* task, unsigned iteration) {
  const unsigned seed = seedOf(task->rank, iteration);
  for (size_t i = 0; i < task->inputCount; ++i) task->input[i] = value(seed, (unsigned)i);
}

void taskRead(const Task* task) {
  enum { kLine = 64 / sizeof(float) };
  const volatile float* output = task->output;
  for (size_t i = 0; i < task->outputCount; i += kLine) (void)output[i];
}

/* `count` floats that should be the sum over ranks [from, to) of what lies from `place` on in their inputs. */
static long wrongSum(const float* actual, size_t count, int from, int to, size_t place, unsigned iteration) {
  enum { kChunk = 256 };
  for (size_t begin = 0; begin < count; begin += kChunk) {
    const size_t length = count - begin < kChunk ? count - begin : kChunk;
    float sum[kChunk] = {0};
    for (int rank = from; rank < to; ++rank) {
      const unsigned seed = seedOf(rank, iteration) + (unsigned)(place + begin);
      for (size_t i = 0; i < length; ++i) sum[i] += value(seed, (unsigned)i);
    }
    for (size_t i = 0; i < length; ++i) {
      if (actual[begin + i] != sum[i]) return (long)(begin + i);
    }
  }
  return -1;
}

long taskWrong(const Task* task, unsigned iteration) {
  const int n = task->ranks, rank = task->rank, peer = rank ^ 1;
  const size_t count = task->count;
  switch (task->operation) {
    case kAllReduce:
      return wrongSum(task->output, count, 0, n, 0, iteration);
    case kReduceScatter:
      return wrongSum(task->output, count, 0, n, (size_t)rank * count, iteration);
    case kBroadcast:
      return rank == 0 ? -1 : wrongSum(task->output, count, 0, 1, 0, iteration);
    case kLatency:
      return wrongSum(task->output, count, peer, peer + 1, 0, iteration);
    case kBandwidth:
      return rank % 2 == 0 ? -1 : wrongSum(task->output, count, peer, peer + 1, 0, iteration);
    case kAllGather:
    case kAlltoAll:
      for (int r = 0; r < n; ++r) {
        const size_t block = (size_t)r * count, place = task->operation == kAlltoAll ? (size_t)rank * count : 0;
        const long wrong = wrongSum(task->output + block, count, r, r + 1, place, iteration);
        if (wrong >= 0) return wrong + (long)block;
      }
      return -1;
    case kOperations:
      break;
  }
  return 0;
}
