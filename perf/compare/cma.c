/* What cross-memory attach allows, for the choice between it and slots in shared memory: ranks with ordinary
 * memory read each other's by process_vm_readv, straight to where the data belong, with nothing in the way but
 * plain flags. WORLD_SIZE processes that this one forks. A sum reads its operands a tile at a time, into memory
 * that stays in the cache. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "forked.h"
#include "probe_work.h"

enum { kTileFloats = 32 << 10, kUnsupported = 77 };

static struct Common {
  Flag ready[kMaxRanks], reduced[kMaxRanks], done[kMaxRanks];
  struct Rank {
    _Alignas(128) pid_t process;
    const float *input, *output;
  } ranks[kMaxRanks];
} * common;
static Loop loop;
static unsigned long epoch;

static void pull(int rank, const float* from, float* to, size_t count) {
  const size_t bytes = count * sizeof(float);
  if (rank == loop.rank) {
    memcpy(to, from, bytes);
    return;
  }
  for (size_t got = 0; got < bytes;) {
    const struct iovec local = {(char*)to + got, bytes - got};
    const struct iovec remote = {(char*)(uintptr_t)from + got, bytes - got};
    const ssize_t n = process_vm_readv(common->ranks[rank].process, &local, 1, &remote, 1, 0);
    if (n <= 0) {
      dprintf(STDERR_FILENO, "unsupported: process_vm_readv: %s\n", n < 0 ? strerror(errno) : "nothing read");
      exit(kUnsupported);
    }
    got += (size_t)n;
  }
}

static void awaitAll(Flag* flags, int ranks) {
  for (int r = 0; r < ranks; ++r) await(&loop, &flags[r], epoch);
}

/* to[0..count) = the sum of all inputs from `from` on. */
static void reduce(const Task* t, size_t from, size_t count, float* to) {
  static _Alignas(4096) float tiles[kMaxRanks][kTileFloats];
  for (size_t at = 0; at < count; at += kTileFloats) {
    const size_t n = count - at < kTileFloats ? count - at : kTileFloats;
    const float* sources[kMaxRanks];
    for (int r = 0; r < t->ranks; ++r) {
      sources[r] = r == t->rank ? t->input + from + at : tiles[r];
      if (r != t->rank) pull(r, common->ranks[r].input + from + at, tiles[r], n);
    }
    float* place = to + at;
    combine(sources, t->ranks, &place, 1, 0, n, 0);
  }
}

static void allReduce(const Task* t) {
  const size_t n = (size_t)t->ranks;
  size_t begins[kMaxRanks + 1];
  for (size_t r = 0; r <= n; ++r) begins[r] = sliceBegin(t->count, r, n);
  const size_t own = begins[t->rank];
  reduce(t, own, begins[t->rank + 1] - own, t->output + own);
  raise_(&common->reduced[t->rank], epoch);
  for (int k = 1; k < t->ranks; ++k) {
    const int r = (t->rank + k) % t->ranks;
    await(&loop, &common->reduced[r], epoch);
    pull(r, common->ranks[r].output + begins[r], t->output + begins[r], begins[r + 1] - begins[r]);
  }
}

static void collective(const Task* t) {
  const struct Rank* ranks = common->ranks;
  raise_(&common->ready[t->rank], epoch);
  awaitAll(common->ready, t->operation == kBroadcast ? 1 : t->ranks);
  if (t->operation == kAllReduce) {
    allReduce(t);
  } else if (t->operation == kReduceScatter) {
    reduce(t, (size_t)t->rank * t->count, t->count, t->output);
  } else if (t->operation == kBroadcast) {
    if (t->rank != 0) pull(0, ranks[0].input, t->output, t->count);
  } else {
    for (int k = 0; k < t->ranks; ++k) {
      const int r = (t->rank + k) % t->ranks;
      const size_t block = t->operation == kAlltoAll ? (size_t)t->rank * t->count : 0;
      pull(r, ranks[r].input + block, t->output + (size_t)r * t->count, t->count);
    }
  }
  raise_(&common->done[t->rank], epoch);
  if (t->operation != kBroadcast || t->rank == 0) awaitAll(common->done, t->ranks);
}

static void receive(const Task* t) {
  const int peer = t->rank ^ 1;
  await(&loop, &common->ready[peer], epoch);
  pull(peer, common->ranks[peer].input, t->output, t->count);
  raise_(&common->done[t->rank], epoch);
}

static void pingPong(const Task* t) {
  if (t->rank % 2 == 0) raise_(&common->ready[t->rank], epoch);
  receive(t);
  if (t->rank % 2 == 0) return;
  raise_(&common->ready[t->rank], epoch);
  await(&loop, &common->done[t->rank ^ 1], epoch);
}

static void window(const Task* t) {
  for (int i = 0; i < t->window; ++i, ++epoch) {
    if (t->rank % 2 == 0) {
      raise_(&common->ready[t->rank], epoch);
    } else {
      receive(t);
    }
  }
  --epoch;
  if (t->rank % 2 == 0) await(&loop, &common->done[t->rank ^ 1], epoch);
}

static void call(const Task* t) {
  common->ranks[t->rank] = (struct Rank){getpid(), t->input, t->output};
  ++epoch;
  if (t->operation == kLatency) {
    pingPong(t);
  } else if (t->operation == kBandwidth) {
    window(t);
  } else {
    collective(t);
  }
}

int main(void) {
  prctl(PR_SET_PTRACER,
        PR_SET_PTRACER_ANY); /* Yama lets only descendants be read; refused where there is no Yama */
  common = share(sizeof *common);
  const Contender contender = {.allocate = loopAllocate, .release = loopRelease, .call = call};
  return forkRanks(&loop, &contender);
}
