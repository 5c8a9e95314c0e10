#include <eccl/eccl.h> /* Run by: examples/launch 4 build/release/examples/sum_c */
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  if (getenv("RANK") == NULL || getenv("WORLD_SIZE") == NULL) return puts("use examples/launch"), EXIT_FAILURE;
  const int rank = atoi(getenv("RANK")), size = atoi(getenv("WORLD_SIZE"));
  float sum = (float)(rank + 1);
  ecclUniqueId id;
  ecclComm_t comm;
  if (ecclGetUniqueId(&id) != ecclSuccess || ecclCommInitRank(&comm, size, id, rank) != ecclSuccess ||
      ecclAllReduce(&sum, &sum, 1, ecclFloat32, ecclSum, comm, NULL) != ecclSuccess ||
      ecclCommDestroy(comm) != ecclSuccess)
    return fprintf(stderr, "rank %d: %s\n", rank, ecclGetLastError(NULL)), EXIT_FAILURE;
  return printf("rank %d: 1 + ... + %d = %g\n", rank, size, sum), EXIT_SUCCESS;
}
