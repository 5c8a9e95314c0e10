#define _GNU_SOURCE
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kWarmUp = 3, kMin = 5, kMax = 10000 };
static const double kAwakeSeconds = 0.05;

struct Shared { /* all zero at first: a new file */
  _Alignas(128) atomic_uint arrived;
  _Alignas(128) atomic_uint generation;
  _Alignas(128) int iterations;
  _Alignas(128) double seconds[kMaxRanks][kMax];
  _Alignas(
      128) double cpu[kMaxRanks]; /* seconds of all threads of a rank, in all timed calls of one measurement */
};

void loopFail(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  dprintf(STDERR_FILENO, "%s\n", text); /* in one piece, whoever else fails */
  exit(EXIT_FAILURE);
}

static const char* need(const char* name) {
  const char* value = getenv(name);
  if (value == NULL) loopFail("%s is not set: this program is run by perf/compare/compare", name);
  return value;
}

static int openFile(const char* name, int flags) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", need("LOOP_DIRECTORY"), name);
  const int file = open(path, flags | O_CREAT, 0600);
  if (file < 0) loopFail("%s: %s", path, strerror(errno));
  return file;
}

int loopPin(int rank) {
  cpu_set_t allowed, chosen;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) loopFail("sched_getaffinity: %s", strerror(errno));
  const int cores = CPU_COUNT(&allowed);
  int core = 0;
  for (int left = rank % cores; !CPU_ISSET(core, &allowed) || left-- > 0;) ++core;
  CPU_ZERO(&chosen);
  CPU_SET(core, &chosen);
  if (sched_setaffinity(0, sizeof chosen, &chosen) != 0) loopFail("sched_setaffinity: %s", strerror(errno));
  return cores;
}

Loop loopOpen(void) {
  const char* rank = getenv("RANK");
  if (rank == NULL) rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == NULL) rank = need("PMI_RANK");
  Loop loop = {.rank = atoi(rank), .ranks = atoi(need("WORLD_SIZE"))};
  if (loop.ranks > kMaxRanks) loopFail("%d ranks: there may be %d", loop.ranks, kMaxRanks);
  loop.crowded = loop.ranks > loopPin(loop.rank);
  loop.cpu = getenv("LOOP_CPU") != NULL;
  const char* calls = getenv("LOOP_CALLS");
  loop.calls = calls == NULL || atoi(calls) < 1 ? 1 : atoi(calls);

  const int file = openFile("loop", O_RDWR);
  if (ftruncate(file, sizeof(Shared)) != 0) loopFail("ftruncate: %s", strerror(errno));
  loop.shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (loop.shared == MAP_FAILED) loopFail("mmap: %s", strerror(errno));
  close(file);
  return loop;
}

void loopPause(const Loop* loop) {
  if (loop->crowded) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause(); /* a core's other hardware thread may be the rank that is waited for */
#endif
}

static void barrier(const Loop* loop) {
  Shared* shared = loop->shared;
  const unsigned generation = atomic_load(&shared->generation);
  if (atomic_fetch_add(&shared->arrived, 1) + 1 == (unsigned)loop->ranks) {
    atomic_store(&shared->arrived, 0);
    atomic_store(&shared->generation, generation + 1);
    return;
  }
  while (atomic_load_explicit(&shared->generation, memory_order_acquire) == generation) loopPause(loop);
}

static double readClock(clockid_t clock) {
  struct timespec time;
  clock_gettime(clock, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double loopNow(void) {
  return readClock(CLOCK_MONOTONIC);
}

/* Not unless it is asked for: it is a system call, between the ranks' meeting and the work of a microsecond. */
static double cpu(const Loop* loop) {
  return loop->cpu ? readClock(CLOCK_PROCESS_CPUTIME_ID) : 0;
}

static double iterate(const Loop* loop, const Contender* contender, const Task* task, unsigned iteration) {
  taskRead(task);
  taskFill(task, iteration);
  barrier(loop);
  const double cpuBegun = cpu(loop), begun = loopNow();
  for (int i = 0; i < loop->calls; ++i) contender->call(task);
  const double seconds = (loopNow() - begun) / loop->calls;
  loop->shared->cpu[loop->rank] += cpu(loop) - cpuBegun;
  barrier(loop); /* nobody writes inputs, or uses the memory's bandwidth, while others are at it */
  return seconds;
}

static int ascending(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* How many iterations fit the time, by rank 0's clock; the same on all ranks. */
static int agree(const Loop* loop, double secondsEach) {
  const char* exact = getenv("LOOP_ITERATIONS");
  if (loop->rank == 0 && exact != NULL) {
    loop->shared->iterations = atoi(exact) < 1 ? 1 : atoi(exact) > kMax ? kMax : atoi(exact);
  } else if (loop->rank == 0) {
    const double fitting = atof(need("LOOP_SECONDS")) / secondsEach;
    loop->shared->iterations = fitting < kMin ? kMin : fitting > kMax ? kMax : (int)fitting;
  }
  barrier(loop);
  return loop->shared->iterations;
}

static void report(const Loop* loop, const Task* task, size_t bytes, int iterations, const char* variant) {
  static double slowest[kMax];
  double cpuSeconds = 0;
  for (int rank = 0; rank < loop->ranks; ++rank) cpuSeconds += loop->shared->cpu[rank];
  for (int i = 0; i < iterations; ++i) {
    slowest[i] = 0;
    for (int rank = 0; rank < loop->ranks; ++rank) {
      const double seconds = loop->shared->seconds[rank][i];
      if (seconds > slowest[i]) slowest[i] = seconds;
    }
  }
  qsort(slowest, (size_t)iterations, sizeof *slowest, ascending);
  const double median = (slowest[(iterations - 1) / 2] + slowest[iterations / 2]) / 2;
  const int file = openFile("results", O_WRONLY | O_APPEND);
  dprintf(file,
          "{\"bytes\": %zu, \"variant\": \"%s\", \"iterations\": %d, \"us\": %.4f, \"slowest_us\": %.4f, "
          "\"cpu_us\": %.1f}\n",
          bytes, variant, iterations, median * 1e6 / taskParts(task),
          slowest[iterations - 1] * 1e6 / taskParts(task),
          cpuSeconds * 1e6 / iterations / loop->calls / taskParts(task));
  close(file);
}

static void measure(const Loop* loop, const Contender* contender, const Task* task, size_t bytes,
                    const char* variant) {
  unsigned iteration = 0;
  double each = 1e9;
  const int warmUp = getenv("LOOP_ITERATIONS") == NULL ? kWarmUp : 1;
  for (int i = 0; i < warmUp; ++i) {
    const double begun = loopNow();
    iterate(loop, contender, task, iteration++);
    const double seconds = loopNow() - begun;
    if (seconds < each) each = seconds;
  }
  const int iterations = agree(loop, each);
  loop->shared->cpu[loop->rank] = 0;
  for (int i = 0; i < iterations; ++i) {
    loop->shared->seconds[loop->rank][i] = iterate(loop, contender, task, iteration++);
  }
  const long wrong = taskWrong(task, iteration - 1);
  if (wrong >= 0)
    loopFail("wrong result: %zu bytes, rank %d, element %ld %s", bytes, task->rank, wrong, variant);
  barrier(loop); /* all times are there, all results are right */
  if (loop->rank == 0) report(loop, task, bytes, iterations, variant);
  barrier(loop);
}

void loopRun(Loop* loop, const Contender* contender) {
  /* Wakes the cores up; where a library's initialisation is long, they are already. */
  for (const double begun = loopNow(); loopNow() - begun < kAwakeSeconds;) continue;
  const char* name = need("LOOP_OPERATION");
  const Operation operation = operationNamed(name);
  if (operation == kOperations) loopFail("LOOP_OPERATION=%s: no such operation", name);
  char* rest = NULL;
  for (const char* sizes = need("LOOP_SIZES"); *sizes != '\0'; sizes = *rest == ',' ? rest + 1 : rest) {
    const size_t bytes = strtoull(sizes, &rest, 10);
    Task task = taskOf(operation, loop->rank, loop->ranks, bytes);
    const int inPlace = contender->inPlace && operation == kAllReduce;
    task.input = contender->allocate(task.inputCount * sizeof(float));
    task.output = inPlace ? task.input : contender->allocate(task.outputCount * sizeof(float));
    if (contender->variant == NULL) measure(loop, contender, &task, bytes, "");
    for (const char* variant;
         contender->variant != NULL && (variant = contender->variant(&task, task.variant)) != NULL;
         ++task.variant) {
      measure(loop, contender, &task, bytes, variant);
    }
    if (!inPlace) contender->release(task.output);
    contender->release(task.input);
  }
}

float* loopAllocate(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, 4096, bytes) != 0) loopFail("no memory for %zu bytes", bytes);
  return memory;
}

void loopRelease(float* buffer) {
  free(buffer);
}
