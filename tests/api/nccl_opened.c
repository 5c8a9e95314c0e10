/* libnccl.so.2 as programs open it that are linked to neither library: with names of its own or with names for
 * all, and before or after libeccl.so. However it is, there is one core.
 *
 *   nccl_opened local|global nccl|eccl LIBNCCL LIBECCL      the third argument: which library is opened first
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  char internal[128];
} Id;

static int failures = 0;

static void expect(int holds, int line, const char* what) {
  if (holds) return;
  ++failures;
  const char* error = dlerror();
  fprintf(stderr, "%s:%d: failed: %s %s\n", __FILE__, line, what, error == NULL ? "" : error);
}
#define EXPECT(condition) expect(condition, __LINE__, #condition)

/* The function `name` as a pointer of the type of `*to`. */
static int find(void* library, const char* name, void* to) {
  void* found = dlsym(library, name);
  memcpy(to, &found, sizeof found);
  return found != NULL;
}

int main(int count, char** arguments) {
  if (count != 5) return fputs("usage: nccl_opened local|global nccl|eccl LIBNCCL LIBECCL\n", stderr), 2;
  const int global = strcmp(arguments[1], "global") == 0, ncclFirst = strcmp(arguments[2], "nccl") == 0;
  const int mode = RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL);
  void *nccl = NULL, *eccl = NULL;
  for (int turn = 0; turn < 2; ++turn) {
    void** opened = (turn == 0) == ncclFirst ? &nccl : &eccl;
    *opened = dlopen(arguments[opened == &nccl ? 3 : 4], mode);
    if (*opened == NULL) return fprintf(stderr, "failed: %s\n", dlerror()), 1;
  }
  void* shown = dlsym(RTLD_DEFAULT, "ncclAllReduce");
  EXPECT((shown != NULL) == global);
  EXPECT(!global || shown == dlsym(nccl, "ncclAllReduce"));
  EXPECT(dlsym(nccl, "ncclAllReduce") != NULL && dlsym(nccl, "ncclAllReduce") == dlsym(nccl, "pncclAllReduce"));
  /* What libnccl.so.2 needs and what was opened by a path are one library. */
  EXPECT(dlsym(nccl, "ecclAllReduce") != NULL && dlsym(nccl, "ecclAllReduce") == dlsym(eccl, "ecclAllReduce"));

  int (*getId)(Id*), (*init)(void**, int, Id, int), (*destroy)(void*), (*initAll)(void**, int, const int*);
  int (*start)(void), (*end)(void);
  int (*sum)(const void*, void*, size_t, int, int, void*, void*);
  int (*sumToo)(const void*, void*, size_t, int, int, void*, void*);
  if (!find(nccl, "ncclGetUniqueId", &getId) || !find(nccl, "ncclCommInitRank", &init) ||
      !find(eccl, "ecclCommDestroy", &destroy) || !find(eccl, "ecclCommInitAll", &initAll) ||
      !find(nccl, "ncclGroupStart", &start) || !find(eccl, "ecclGroupEnd", &end) ||
      !find(nccl, "ncclAllReduce", &sum) || !find(eccl, "ecclAllReduce", &sumToo))
    return fprintf(stderr, "failed: %s\n", dlerror()), 1;

  /* Made by ncclCommInitRank, then by ecclCommInitAll; used and ended by both names. */
  for (int turn = 0; turn < 2; ++turn) {
    Id id;
    void* comms[2] = {NULL, NULL};
    float data[2] = {4, 5};
    if (turn == 0) {
      EXPECT(getId(&id) == 0 && start() == 0);
      for (int rank = 0; rank < 2; ++rank) EXPECT(init(&comms[rank], 2, id, rank) == 0);
      EXPECT(end() == 0);
    } else {
      EXPECT(initAll(comms, 2, NULL) == 0);
    }
    EXPECT(start() == 0);
    EXPECT(sum(&data[0], &data[0], 1, 7, 0, comms[0], NULL) == 0);
    EXPECT(sumToo(&data[1], &data[1], 1, 7, 0, comms[1], NULL) == 0);
    EXPECT(end() == 0);
    EXPECT(data[0] == 9 && data[1] == 9);
    for (int rank = 0; rank < 2; ++rank) EXPECT(destroy(comms[rank]) == 0);
  }
  puts(failures == 0 ? "passed" : "failed");
  return failures == 0 ? 0 : 1;
}
