/* What copies through shared memory allow ordinary memory: senders copy into rings that receivers copy, or sum,
 * out of, both at once, with nothing in the way but plain flags. WORLD_SIZE processes that this one forks.
 *
 * There are several ways, of which the fastest at a size counts: pieces of 4 to 128 KiB, eight of them in a
 * ring; lines claimed as they are read, so that they are this processor's alone, or left to both; rings that two
 * ranks exchange, so that each writes next where it has read; non-temporal stores into the rings, or into
 * results; an AllReduce also in one round, in which everybody sums everything.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>

#include "forked.h"
#include "probe_work.h"

enum { kPieces = 8, kMostPiece = 128 << 10, kClaimed = 2048, kMostRings = 2 };

typedef struct {
  const char* name;
  size_t piece;
  int claims, streamsRing, streamsResult, once, exchanges;
} Variant;

/* From one rank to another. Numbers of pieces go on from call to call. */
typedef struct {
  Flag written, read;
  _Alignas(4096) char data[kPieces * kMostPiece];
} Ring;

/* What goes piece by piece from one rank to another, or within one. */
typedef struct {
  char* at; /* in this rank's memory */
  size_t bytes, done;
} Stream;

static Ring* rings;                 /* by round, sender and receiver */
static unsigned long *sent, *taken; /* pieces, of this rank's ends: by round and the other rank */
static unsigned long *sentBefore, *takenBefore; /* these, when what make() makes began */
static unsigned long calls;
static Loop loop;

static Variant variantOf(const Task* t, int index) {
  static const Variant ways[] = {{"4 KiB", 4 << 10, 1, 0, 0, 0},
                                 {"16 KiB", 16 << 10, 1, 0, 0, 0},
                                 {"64 KiB", 64 << 10, 1, 0, 0, 0},
                                 {"128 KiB", 128 << 10, 1, 0, 0, 0},
                                 {"4 KiB, shared", 4 << 10, 0, 0, 0, 0},
                                 {"128 KiB, shared", 128 << 10, 0, 0, 0, 0},
                                 {"32 KiB, rings streamed", 32 << 10, 0, 1, 0, 0},
                                 {"128 KiB, rings streamed", 128 << 10, 0, 1, 0, 0},
                                 {"64 KiB, results streamed", 64 << 10, 1, 0, 1, 0},
                                 {"16 KiB, once", 16 << 10, 1, 0, 0, 1},
                                 {"4 KiB, exchanged", 4 << 10, 0, 0, 0, 0, 1},
                                 {"16 KiB, exchanged", 16 << 10, 0, 0, 0, 0, 1},
                                 {"128 KiB, exchanged", 128 << 10, 0, 0, 0, 0, 1},
                                 {"16 KiB, exchanged, once", 16 << 10, 0, 0, 0, 1, 1}};
  const size_t bytes = t->count * sizeof(float);
  int left = index;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; ++i) {
    const Variant* v = &ways[i];
    if (v->piece > 4 << 10 && v->piece > 4 * bytes) continue;
    if ((v->streamsRing || v->streamsResult) && !kHaveStreaming) continue;
    if (v->exchanges && (t->operation == kBroadcast || t->operation == kBandwidth)) continue;
    if (v->once && (t->operation != kAllReduce || bytes > 256 << 10)) continue;
    if (left-- == 0) return *v;
  }
  return (Variant){0};
}

static const char* nameOf(const Task* t, int index) {
  return variantOf(t, index).name;
}

static Ring* ringOf(int round, int from, int to) {
  return &rings[(round * loop.ranks + from) * loop.ranks + to];
}
static unsigned long* countOf(unsigned long* counts, int round, int other) {
  return &counts[round * loop.ranks + other];
}

static unsigned long readOf(Flag* flag) {
  return atomic_load_explicit(&flag->value, memory_order_acquire);
}

/* Where piece number `next` from one rank to another is. Exchanged rings begin anew with each call. What goes
 * both ways at once swaps the two rings then; what goes to and fro has one of them.
 */
static char* placeOf(const Variant* v, int round, int from, int to, unsigned long next, unsigned long before) {
  if (!v->exchanges) return ringOf(round, from, to)->data + next % kPieces * v->piece;
  const int swapped = v->exchanges > 1 ? from > to : (int)(calls & 1);
  const Ring* const ring = swapped ? ringOf(round, to, from) : ringOf(round, from, to);
  return (char*)(uintptr_t)ring->data + (next - before) % kPieces * v->piece;
}

/* Where the next piece goes; NULL: there is no room yet. */
static char* room(const Variant* v, int round, int to) {
  Ring* ring = ringOf(round, loop.rank, to);
  const unsigned long next = *countOf(sent, round, to);
  if (next - readOf(&ring->read) >= kPieces) return NULL;
  return placeOf(v, round, loop.rank, to, next, *countOf(sentBefore, round, to));
}
static void publish(int round, int to) {
  raise_(&ringOf(round, loop.rank, to)->written, ++*countOf(sent, round, to));
}
/* The next piece; NULL: it has not come. */
static const char* piece(const Variant* v, int round, int from) {
  Ring* ring = ringOf(round, from, loop.rank);
  const unsigned long next = *countOf(taken, round, from);
  if (readOf(&ring->written) <= next) return NULL;
  return placeOf(v, round, from, loop.rank, next, *countOf(takenBefore, round, from));
}
static void drop(int round, int from) {
  raise_(&ringOf(round, from, loop.rank)->read, ++*countOf(taken, round, from));
}

static void copy(char* to, const char* from, size_t bytes, int streaming) {
  const float* source = (const float*)from;
  float* place = (float*)to;
  combine(&source, 1, &place, 1, 0, bytes / sizeof(float), streaming);
}

static size_t least(size_t a, size_t b) {
  return a < b ? a : b;
}

/* The least that makes a line this processor's, before it is read. */
static void claim(const float* memory, size_t bytes) {
  volatile char* const lines = (volatile char*)(uintptr_t)memory;
  for (size_t at = 0; at < bytes; at += kLineFloats * sizeof(float)) lines[at] = lines[at];
}

/* As combine(), of sources of which those from `pieces` on lie in rings. */
static void combinePieces(const Variant* v, const float* const* sources, int pieces, int k,
                          float* const* destinations, int m, size_t bytes) {
  const size_t step = v->claims ? kClaimed : bytes;
  for (size_t at = 0; at < bytes; at += step) {
    const size_t length = least(step, bytes - at);
    for (int i = pieces; v->claims && i < k; ++i) claim(sources[i] + at / sizeof(float), length);
    combine(sources, k, destinations, m, at / sizeof(float), length / sizeof(float), v->streamsResult);
  }
}

/* One piece of what goes to another rank, if there is room. */
static int sendPiece(const Variant* v, Stream* s, int round, int to) {
  if (s->done == s->bytes) return 0;
  char* const place = room(v, round, to);
  if (place == NULL) return 0;
  const size_t bytes = least(v->piece, s->bytes - s->done);
  copy(place, s->at + s->done, bytes, v->streamsRing);
  if (v->streamsRing) streamed();
  publish(round, to);
  s->done += bytes;
  return 1;
}

static int takePiece(const Variant* v, Stream* s, int round, int from) {
  if (s->done == s->bytes) return 0;
  const float* const data = (const float*)piece(v, round, from);
  if (data == NULL) return 0;
  float* const place = (float*)(s->at + s->done);
  const size_t bytes = least(v->piece, s->bytes - s->done);
  combinePieces(v, &data, 0, 1, &place, 1, bytes);
  drop(round, from);
  s->done += bytes;
  return 1;
}

static int copyPiece(const Variant* v, const char* from, Stream* to) {
  if (to->done == to->bytes) return 0;
  const size_t bytes = least(v->piece, to->bytes - to->done);
  copy(to->at + to->done, from + to->done, bytes, v->streamsResult);
  to->done += bytes;
  return 1;
}

/* A piece of the sum of `own` and of what all others send in round 0, to `to` and, in round 1, to all others.
 */
static int sumPiece(const Variant* v, const char* own, Stream* to, int passedOn) {
  if (to->done == to->bytes) return 0;
  const int n = loop.ranks, me = loop.rank;
  const float* sources[kMaxRanks] = {(const float*)(own + to->done)};
  float* destinations[kMaxRanks] = {(float*)(to->at + to->done)};
  int k = 1;
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    if ((sources[k] = (const float*)piece(v, 0, r)) == NULL) return 0;
    if (passedOn && (destinations[k] = (float*)room(v, 1, r)) == NULL) return 0;
    ++k;
  }
  const size_t bytes = least(v->piece, to->bytes - to->done);
  combinePieces(v, sources, 1, k, destinations, passedOn ? k : 1, bytes);
  if (v->streamsResult) streamed();
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    drop(0, r);
    if (passedOn) publish(1, r);
  }
  to->done += bytes;
  return 1;
}

typedef struct {
  Stream out[kMaxRanks], in[kMaxRanks]; /* by the other rank; nothing of one's own */
  int inRound;                          /* of in[] */
  const char* own;                      /* this rank's share, */
  Stream copy, sum;                     /* which is copied there, or summed with what comes in round 0 */
  int passedOn;                         /* the sum, in round 1 */
} Work;

static void make(const Variant* v, Work* w) {
  const int n = loop.ranks, me = loop.rank;
  const size_t counts = kMostRings * (size_t)n * sizeof *sent;
  memcpy(sentBefore, sent, counts);
  memcpy(takenBefore, taken, counts);
  for (int left = 1; left > 0;) {
    int did = 0;
    left = w->sum.done < w->sum.bytes;
    for (int k = 1; k < n; ++k) {
      const int to = (me + k) % n, from = (me + n - k) % n;
      did += sendPiece(v, &w->out[to], 0, to);
      did += takePiece(v, &w->in[from], w->inRound, from);
      left += w->out[to].done < w->out[to].bytes || w->in[from].done < w->in[from].bytes;
    }
    did += sumPiece(v, w->own, &w->sum, w->passedOn);
    if (did == 0) did += copyPiece(v, w->own, &w->copy); /* while the others let this rank wait */
    if (did == 0 && left > 0) loopPause(&loop);
  }
  while (copyPiece(v, w->own, &w->copy)) continue;
  if (v->streamsResult) streamed();
}

static Work workOf(const Task* t, const Variant* v) {
  const int n = t->ranks, me = t->rank;
  const size_t bytes = t->count * sizeof(float);
  char *const input = (char*)t->input, *const output = (char*)t->output;
  Work w = {0};
  for (int r = 0; r < n; ++r) {
    if (r == me) continue;
    const size_t block = (size_t)r * bytes;
    switch (t->operation) {
      case kAllGather:
        w.out[r] = (Stream){input, bytes, 0};
        w.in[r] = (Stream){output + block, bytes, 0};
        break;
      case kAlltoAll:
        w.out[r] = (Stream){input + block, bytes, 0};
        w.in[r] = (Stream){output + block, bytes, 0};
        break;
      case kReduceScatter:
        w.out[r] = (Stream){input + block, bytes, 0};
        break;
      case kBroadcast:
        if (me == 0) w.out[r] = (Stream){input, bytes, 0};
        if (r == 0) w.in[r] = (Stream){output, bytes, 0};
        break;
      default:
        break;
    }
  }
  const size_t own = (size_t)me * bytes;
  w.own = t->operation == kAllGather ? input : input + own;
  if (t->operation == kAllGather || t->operation == kAlltoAll) w.copy = (Stream){output + own, bytes, 0};
  if (t->operation == kReduceScatter) w.sum = (Stream){output, bytes, 0};
  if (t->operation != kAllReduce) return w;
  if (v->once) {
    for (int r = 0; r < n; ++r)
      if (r != me) w.out[r] = (Stream){input, bytes, 0};
    w.own = input;
    w.sum = (Stream){output, bytes, 0};
    return w;
  }
  for (int r = 0; r < n; ++r) {
    const size_t begin = sliceBegin(t->count, (size_t)r, (size_t)n) * sizeof(float),
                 slice = sliceBegin(t->count, (size_t)r + 1, (size_t)n) * sizeof(float) - begin;
    if (r == me) {
      w.own = input + begin;
      w.sum = (Stream){output + begin, slice, 0};
    } else {
      w.out[r] = (Stream){input + begin, slice, 0};
      w.in[r] = (Stream){output + begin, slice, 0};
    }
  }
  w.inRound = w.passedOn = 1;
  return w;
}

static void transfer(const Task* t, const Variant* v, int sends) {
  const size_t bytes = t->count * sizeof(float);
  Work w = {0};
  if (sends) {
    w.out[t->rank ^ 1] = (Stream){(char*)t->input, bytes, 0};
  } else {
    w.in[t->rank ^ 1] = (Stream){(char*)t->output, bytes, 0};
  }
  make(v, &w);
}

static void call(const Task* t) {
  Variant v = variantOf(t, t->variant);
  const int even = t->rank % 2 == 0;
  ++calls;
  if (t->operation == kLatency) {
    if (v.exchanges) v.exchanges = 2; /* to and fro */
    transfer(t, &v, even);
    transfer(t, &v, !even);
  } else if (t->operation == kBandwidth) {
    for (int i = 0; i < t->window; ++i) transfer(t, &v, even);
  } else {
    Work w = workOf(t, &v);
    make(&v, &w);
  }
}

int main(void) {
  const size_t ranks = (size_t)worldSize();
  rings = share(kMostRings * ranks * ranks * sizeof *rings);
  sent = calloc(kMostRings * ranks, sizeof *sent);
  taken = calloc(kMostRings * ranks, sizeof *taken);
  sentBefore = calloc(kMostRings * ranks, sizeof *sent);
  takenBefore = calloc(kMostRings * ranks, sizeof *taken);
  if (sent == NULL || taken == NULL || sentBefore == NULL || takenBefore == NULL) loopFail("no memory");
  const Contender contender = {
      .allocate = loopAllocate, .release = loopRelease, .call = call, .variant = nameOf};
  return forkRanks(&loop, &contender);
}
