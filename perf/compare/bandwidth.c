/* What this machine's memory does, as lines of JSON: one process's memcpy and triad, in GB/s (10^9) of bytes
 * read and written. The triad is McCalpin's, in float. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "loop.h"

enum { kFloats = 16 << 20, kRepetitions = 10 };

int main(void) {
  float* arrays[3];
  for (int i = 0; i < 3; ++i) {
    arrays[i] = loopAllocate(kFloats * sizeof(float));
    memset(arrays[i], i, kFloats * sizeof(float));
  }
  float *a = arrays[0], *b = arrays[1], *c = arrays[2];
  double copy = 1e9, triad = 1e9;
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    double begun = loopNow();
    memcpy(a, b, kFloats * sizeof(float));
    const double copied = loopNow() - begun;
    begun = loopNow();
    for (int i = 0; i < kFloats; ++i) c[i] = a[i] + 3.0f * b[i];
    const double added = loopNow() - begun;
    if (copied < copy) copy = copied;
    if (added < triad) triad = added;
  }
  const double gigabytes = kFloats * sizeof(float) * 1e-9;
  printf("{\"memcpy\": %.2f, \"triad\": %.2f, \"last\": %g}\n", 2 * gigabytes / copy, 3 * gigabytes / triad,
         (double)c[kFloats - 1]); /* a result that is used is not optimised away */
  for (int i = 0; i < 3; ++i) loopRelease(arrays[i]);
  return 0;
}
