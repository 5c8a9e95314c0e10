/* The measuring loop: the same for everything that is compared.
 *
 * Each iteration: write the whole input, meet the other ranks, take the time of the contender's call, meet
 * again. The meeting is this library's own barrier in shared memory, so no contender's barrier colours the
 * result. The slowest rank's time counts; the median over the iterations is the figure. The last iteration's
 * result is checked.
 *
 * From the environment: LOOP_DIRECTORY (where the ranks share the file `loop` and rank 0 adds lines of JSON to
 * `results`), LOOP_OPERATION, LOOP_SIZES (bytes, separated by commas), LOOP_SECONDS (time to spend on a size),
 * WORLD_SIZE, and RANK or what Open MPI or MPICH give instead. If they are set: LOOP_ITERATIONS (so many after
 * one to warm up, whatever they take), LOOP_CPU (the CPU time of the calls is reported, too), LOOP_CALLS (so
 * many calls in each iteration: where ranks outnumber cores, those that have met again keep the others from
 * working). */
#ifndef ECCL_PERF_COMPARE_LOOP_H_
#define ECCL_PERF_COMPARE_LOOP_H_

#include "task.h"

enum { kMaxRanks = 64 };

typedef struct Shared Shared;

typedef struct {
  int rank, ranks;
  int crowded; /* there are more ranks than cores: who waits must give way */
  int cpu;     /* the CPU time of calls is wanted */
  int calls;   /* one after the other between two meetings; their mean counts */
  Shared* shared;
} Loop;

typedef struct {
  float* (*allocate)(size_t bytes); /* the input, then the output */
  void (*release)(float* buffer);
  void (*call)(const Task* task);
  /* The name of a way to do the task, NULL if there are no more. NULL: there is one, without a name. */
  const char* (*variant)(const Task* task, int index);
  int inPlace; /* AllReduce is done in the input, because there is no other form of the call */
} Contender;

/* Pins the calling thread, and thereby the threads it will make: call it before anything else. */
Loop loopOpen(void);
void loopRun(Loop* loop, const Contender* contender);
/* Rank r runs on the r-th of the cores this process may use, modulo their number, which is returned. */
int loopPin(int rank);
/* Seconds since some time in the past. */
double loopNow(void);
/* Between two looks at what another rank is to write. */
void loopPause(const Loop* loop);
/* Says why on stderr and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void loopFail(const char* format, ...);
/* Page-aligned ordinary memory. */
float* loopAllocate(size_t bytes);
void loopRelease(float* buffer);

#endif
