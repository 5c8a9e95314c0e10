/* The limit: what an operation costs when all ranks share all buffers and do the least memory work it needs,
 * with plain flags to wait for each other. WORLD_SIZE processes that this one forks.
 *
 * There are several ways, of which the fastest at a size is the limit there:
 *  - own: each rank makes its own output, from all inputs.
 *  - split: each rank does its part for all: a slice of a sum, broadcast or message, or the block that it has.
 *  - mailbox: small messages; as own, from copies of the inputs, so that nobody waits for those who read them.
 *  - streaming: with non-temporal stores. */
#define _GNU_SOURCE
#include "forked.h"
#include "probe_work.h"

typedef enum { kOwn, kSplit, kMailbox } Way;
typedef struct {
  const char* name;
  Way way;
  int streaming;
} Variant;

/* Mailboxes enough for two iterations of kBandwidth. */
enum { kMailboxBytes = 16 << 10, kMailboxes = 32, kStreamingBytes = 8 << 10, kSplitMessage = 64 << 10 };

/* What the ranks share; each rank's memory holds its input and its output, at the same places as the others'.
 */
static struct Common {
  Flag ready[kMaxRanks], done[kMaxRanks];
  Flag posted[kMaxRanks], written[kMaxRanks]; /* of messages that are split */
  float mailbox[kMailboxes][kMaxRanks][kMailboxBytes / sizeof(float)];
} * common;
static char* memory;
static size_t memoryBytes; /* of a rank */
static size_t used;        /* of this rank's */
static Loop loop;
static unsigned long epoch; /* of this rank's ready flag */

static Variant variantOf(const Task* t, int index) {
  static const Variant ways[] = {{"own", kOwn, 0},
                                 {"split", kSplit, 0},
                                 {"own, streaming", kOwn, 1},
                                 {"split, streaming", kSplit, 1},
                                 {"mailbox", kMailbox, 0}};
  const size_t bytes = t->count * sizeof(float);
  int left = index;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    const Variant* v = &ways[i];
    if (v->way == kSplit && t->operation == kReduceScatter) continue;
    if (v->way == kSplit && t->operation >= kLatency && bytes < kSplitMessage) continue;
    if (v->way == kMailbox && t->inputCount * sizeof(float) > kMailboxBytes) continue;
    if (v->streaming && (!kHaveStreaming || bytes < kStreamingBytes)) continue;
    if (left-- == 0) return *v;
  }
  return (Variant){0};
}

static const char* nameOf(const Task* t, int index) {
  return variantOf(t, index).name;
}

static float* allocate(size_t bytes) {
  float* at = (float*)(memory + (size_t)loop.rank * memoryBytes + used);
  used += (bytes + 4095) / 4096 * 4096;
  return at;
}

static void release(float* buffer) {
  used = (size_t)((char*)buffer - memory) - (size_t)loop.rank * memoryBytes;
}

/* Where another rank has what this one has at `mine`. */
static float* of(int rank, float* mine) {
  return (float*)((char*)mine + (rank - loop.rank) * (ptrdiff_t)memoryBytes);
}

static void own(const Task* t, float* const* inputs, int streaming) {
  const int n = t->ranks, rank = t->rank;
  const float* sources[kMaxRanks];
  for (int r = 0; r < n; ++r) {
    const int blocks = t->operation == kReduceScatter || t->operation == kAlltoAll;
    sources[r] = inputs[r] + (blocks ? (size_t)rank * t->count : 0);
  }
  if (t->operation == kAllGather || t->operation == kAlltoAll) {
    for (int r = 0; r < n; ++r) {
      float* block = t->output + (size_t)r * t->count;
      combine(&sources[r], 1, &block, 1, 0, t->count, streaming);
    }
  } else if (t->operation == kBroadcast) {
    if (rank != 0) combine(sources, 1, &t->output, 1, 0, t->count, streaming);
  } else {
    combine(sources, n, &t->output, 1, 0, t->count, streaming);
  }
}

static void split(const Task* t, float* const* inputs, float* const* outputs, int streaming) {
  const size_t n = (size_t)t->ranks, rank = (size_t)t->rank, count = t->count;
  const size_t from = sliceBegin(count, rank, n), slice = sliceBegin(count, rank + 1, n) - from;
  float* blocks[kMaxRanks];
  for (size_t r = 0; r < n; ++r) blocks[r] = outputs[r] + rank * count;
  const float* const* sources = (const float* const*)inputs;
  if (t->operation == kAllReduce) {
    combine(sources, t->ranks, outputs, t->ranks, from, slice, streaming);
  } else if (t->operation == kBroadcast) {
    combine(sources, 1, outputs + 1, t->ranks - 1, from, slice, streaming);
  } else if (t->operation == kAllGather) {
    combine(&sources[rank], 1, blocks, t->ranks, 0, count, streaming);
  } else {
    for (size_t r = 0; r < n; ++r) {
      const float* block = inputs[rank] + r * count;
      combine(&block, 1, &blocks[r], 1, 0, count, streaming);
    }
  }
}

static void collective(const Task* t, Variant v) {
  const int n = t->ranks, rank = t->rank;
  float *inputs[kMaxRanks], *outputs[kMaxRanks];
  for (int r = 0; r < n; ++r) {
    inputs[r] = v.way == kMailbox ? common->mailbox[epoch % kMailboxes][r] : of(r, t->input);
    outputs[r] = of(r, t->output);
  }
  if (v.way == kMailbox) memcpy(inputs[rank], t->input, t->inputCount * sizeof(float));
  raise_(&common->ready[rank], epoch);
  const int needed =
      t->operation == kBroadcast && v.way != kSplit ? 1 : n; /* of the ranks' inputs or outputs */
  for (int r = 0; r < needed; ++r) await(&loop, &common->ready[r], epoch);
  if (v.way == kSplit) {
    split(t, inputs, outputs, v.streaming);
  } else {
    own(t, inputs, v.streaming);
  }
  if (v.streaming) streamed();
  if (v.way == kMailbox) return; /* inputs may be written at once; mailboxes are used again much later */
  raise_(&common->done[rank], epoch);
  if (needed == 1 && rank != 0) return; /* nobody reads or writes what this rank has */
  for (int r = 0; r < n; ++r) await(&loop, &common->done[r], epoch);
}

static void send(const Task* t, Variant v) {
  if (v.way == kMailbox)
    memcpy(common->mailbox[epoch % kMailboxes][t->rank], t->input, t->count * sizeof(float));
  raise_(&common->ready[t->rank], epoch);
  if (v.way != kSplit) return;
  const int peer = t->rank ^ 1;
  const size_t half = t->count / 2;
  const float* source = t->input;
  float* place = of(peer, t->output);
  await(&loop, &common->posted[peer], epoch);
  combine(&source, 1, &place, 1, half, t->count - half, v.streaming);
  if (v.streaming) streamed();
  raise_(&common->written[t->rank], epoch);
}

static void receive(const Task* t, Variant v) {
  const int peer = t->rank ^ 1;
  raise_(&common->posted[t->rank], epoch);
  await(&loop, &common->ready[peer], epoch);
  const float* source = v.way == kMailbox ? common->mailbox[epoch % kMailboxes][peer] : of(peer, t->input);
  combine(&source, 1, &t->output, 1, 0, v.way == kSplit ? t->count / 2 : t->count, v.streaming);
  if (v.streaming) streamed();
  if (v.way == kSplit) await(&loop, &common->written[peer], epoch);
  raise_(&common->done[t->rank], epoch);
}

static void pingPong(const Task* t, Variant v) {
  if (t->rank % 2 == 0) send(t, v);
  receive(t, v);
  if (t->rank % 2 == 1) {
    send(t, v);
    if (v.way != kMailbox) await(&loop, &common->done[t->rank ^ 1], epoch);
  }
}

static void window(const Task* t, Variant v) {
  for (int i = 0; i < t->window; ++i, ++epoch) {
    if (t->rank % 2 == 0) {
      send(t, v);
    } else {
      receive(t, v);
    }
  }
  --epoch;
  if (t->rank % 2 == 0 && v.way != kMailbox) await(&loop, &common->done[t->rank ^ 1], epoch);
}

static void call(const Task* t) {
  const Variant v = variantOf(t, t->variant);
  ++epoch;
  if (t->operation == kLatency) {
    pingPong(t, v);
  } else if (t->operation == kBandwidth) {
    window(t, v);
  } else {
    collective(t, v);
  }
}

static size_t largestSize(void) {
  const char* sizes = getenv("LOOP_SIZES");
  size_t largest = 0;
  for (char* rest; sizes != NULL && *sizes != '\0'; sizes = *rest == ',' ? rest + 1 : rest) {
    const size_t bytes = strtoull(sizes, &rest, 10);
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

int main(void) {
  memoryBytes = 2 * (largestSize() / 4096 + 2) * 4096;
  common = share(sizeof *common);
  memory = share((size_t)worldSize() * memoryBytes);
  const Contender contender = {.allocate = allocate, .release = release, .call = call, .variant = nameOf};
  return forkRanks(&loop, &contender);
}
