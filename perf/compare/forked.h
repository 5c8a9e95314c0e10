/* Ranks that this process forks, the memory that they share, and the flags they wait for each other with: what
 * the programs without a library are made of. */
#ifndef ECCL_PERF_COMPARE_FORKED_H_
#define ECCL_PERF_COMPARE_FORKED_H_

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"

/* Counts up with each message. */
typedef struct {
  _Alignas(128) atomic_ulong value;
} Flag;

static inline void await(const Loop* loop, Flag* flag, unsigned long value) {
  while (atomic_load_explicit(&flag->value, memory_order_acquire) < value) loopPause(loop);
}

static inline void raise_(Flag* flag, unsigned long value) {
  atomic_store_explicit(&flag->value, value, memory_order_release);
}

/* Zeroed memory that the ranks have at the same address. */
static inline void* share(size_t bytes) {
  void* shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (shared == MAP_FAILED) loopFail("mmap of %zu bytes: %s", bytes, strerror(errno));
  return shared;
}

static inline int worldSize(void) {
  return atoi(getenv("WORLD_SIZE") != NULL ? getenv("WORLD_SIZE") : "0");
}

/* Runs the contender in WORLD_SIZE processes; the exit code of this one. */
static inline int forkRanks(Loop* loop, const Contender* contender) {
  for (int rank = 0; rank < worldSize(); ++rank) {
    if (fork() != 0) continue;
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    *loop = loopOpen();
    loopRun(loop, contender);
    exit(EXIT_SUCCESS);
  }
  int status = 0;
  while (wait(&status) > 0) {
    if (status != 0)
      return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE; /* the caller ends the others */
  }
  return EXIT_SUCCESS;
}

#endif
