/* A program for NCCL, on hosts without a GPU: every rank contributes its number + 1, and gets the sum and
 * everybody's. It is compiled with NCCL's header or with ECCL's (pkg-config eccl-nccl), and loads whichever
 * libnccl.so.2 is found. examples/launch sets RANK and WORLD_SIZE, and what makes the id the same on all ranks.
 */
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                   \
  do {                                                                \
    if ((call) != ncclSuccess) {                                      \
      fprintf(stderr, "rank %d: %s\n", rank, ncclGetLastError(NULL)); \
      return EXIT_FAILURE;                                            \
    }                                                                 \
  } while (0)

int main(void) {
  if (getenv("RANK") == NULL || getenv("WORLD_SIZE") == NULL) return puts("use examples/launch"), EXIT_FAILURE;
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  float mine = (float)(rank + 1), sum = 0;
  float* all = calloc((size_t)size, sizeof *all);
  if (all == NULL) return EXIT_FAILURE;

  ncclUniqueId id;
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "example";
  CHECK(ncclGetUniqueId(&id));
  CHECK(ncclCommInitRankConfig(&comm, size, id, rank, &config));
  CHECK(ncclGroupStart());
  CHECK(ncclAllReduce(&mine, &sum, 1, ncclFloat, ncclSum, comm, NULL));
  CHECK(ncclAllGather(&mine, all, 1, ncclFloat, comm, NULL));
  CHECK(ncclGroupEnd());
  printf("rank %d: 1 + ... + %d = %g, the last of them is %g\n", rank, size, sum, all[size - 1]);
  const int wrong = sum != (float)(size * (size + 1) / 2) || all[size - 1] != (float)size;
  CHECK(ncclCommDestroy(comm));
  free(all);
  return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
