/* The memory work of the probe: sums and copies with any number of sources and destinations, in one pass. */
#ifndef ECCL_PERF_COMPARE_PROBE_WORK_H_
#define ECCL_PERF_COMPARE_PROBE_WORK_H_

#include <stddef.h>
#include <string.h>

#include "loop.h"

#if defined(__AVX__)
#include <immintrin.h>
enum { kHaveStreaming = 1 };
#else
enum { kHaveStreaming = 0 };
#endif

enum { kLanes = 8, kLineFloats = 16 };
typedef float Vector __attribute__((vector_size(kLanes * sizeof(float)), aligned(4)));

/* A non-temporal store; `to` is aligned to a vector. Without AVX nobody asks for it. */
static inline void stream(float* to, Vector v) {
#if defined(__AVX__)
  _mm256_stream_ps(to, (__m256)v);
#else
  *(Vector*)to = v;
#endif
}

/* Streamed data is seen by others only after this. */
static inline void streamed(void) {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

/* destinations[0..m)[i] = sum of sources[0..k)[i]. The constants k and m of its callers unroll it. */
static inline __attribute__((always_inline)) void sumOf(const float* const* sources, int k,
                                                        float* const* destinations, int m, size_t count,
                                                        int streaming) {
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector sum = *(const Vector*)(sources[0] + i);
    for (int s = 1; s < k; ++s) sum += *(const Vector*)(sources[s] + i);
    for (int d = 0; d < m; ++d) {
      if (streaming) {
        stream(destinations[d] + i, sum);
      } else {
        *(Vector*)(destinations[d] + i) = sum;
      }
    }
  }
  for (; i < count; ++i) {
    float sum = sources[0][i];
    for (int s = 1; s < k; ++s) sum += sources[s][i];
    for (int d = 0; d < m; ++d) destinations[d][i] = sum;
  }
}

#define ECCL_PROBE_CASE(K, M) \
  if (k == (K) && m == (M)) return streaming ? sumOf(s, K, d, M, count, 1) : sumOf(s, K, d, M, count, 0)

/* Where rank r's slice of `count` floats begins, at a line; of r = n: where the last one ends. */
static inline size_t sliceBegin(size_t count, size_t r, size_t n) {
  const size_t lines = (count + kLineFloats - 1) / kLineFloats, at = lines * r / n * kLineFloats;
  return at < count ? at : count;
}

/* Sources and destinations that begin at float `from` of each pointer. */
static inline void combine(const float* const* sources, int k, float* const* destinations, int m, size_t from,
                           size_t count, int streaming) {
  const float* s[kMaxRanks];
  float* d[kMaxRanks];
  if (k < 1 || k > kMaxRanks) return; /* never; the compiler warns without */
  for (int i = 0; i < k; ++i) s[i] = sources[i] + from;
  for (int i = 0; i < m; ++i) {
    d[i] = destinations[i] + from;
    if ((size_t)d[i] % sizeof(Vector) != 0) streaming = 0;
  }
  if (k == 1 && m == 1 && !streaming) {
    memcpy(d[0], s[0], count * sizeof(float));
    return;
  }
  ECCL_PROBE_CASE(1, 1);
  ECCL_PROBE_CASE(1, 2);
  ECCL_PROBE_CASE(1, 3);
  ECCL_PROBE_CASE(1, 4);
  ECCL_PROBE_CASE(2, 1);
  ECCL_PROBE_CASE(2, 2);
  ECCL_PROBE_CASE(4, 1);
  ECCL_PROBE_CASE(4, 4);
  ECCL_PROBE_CASE(8, 1);
  ECCL_PROBE_CASE(8, 8);
  sumOf(s, k, d, m, count, streaming);
}

#endif
