/* Every rank contributes its number; every rank gets the sum. Which rank this is and where the others meet
 * comes from the environment: RANK, WORLD_SIZE, ECCL_COMM_ID=host:port (of rank 0) and ECCL_COMM_SECRET.
 * examples/launch sets all four. */
#include <eccl/eccl.h>
#include <stdio.h>
#include <stdlib.h>

enum { kCount = 1 << 20 };

static int failed(const char* what, ecclComm_t comm) {
  fprintf(stderr, "%s: %s\n", what, ecclGetLastError(comm));
  if (comm != NULL) ecclCommAbort(comm); /* the other ranks get an error instead of waiting */
  return EXIT_FAILURE;
}

int main(void) {
  const char *rankText = getenv("RANK"), *sizeText = getenv("WORLD_SIZE");
  if (rankText == NULL || sizeText == NULL || getenv("ECCL_COMM_ID") == NULL) {
    fprintf(stderr, "set RANK, WORLD_SIZE, ECCL_COMM_ID and ECCL_COMM_SECRET, or use examples/launch\n");
    return EXIT_FAILURE;
  }
  const int rank = atoi(rankText), size = atoi(sizeText);

  ecclUniqueId id; /* made from ECCL_COMM_ID: the same on every rank */
  ecclComm_t comm = NULL;
  if (ecclGetUniqueId(&id) != ecclSuccess) return failed("ecclGetUniqueId", NULL);
  if (ecclCommInitRank(&comm, size, id, rank) != ecclSuccess) return failed("ecclCommInitRank", NULL);

  float* data = NULL; /* memory that ranks on this host share; any other works too */
  if (ecclMemAlloc((void**)&data, kCount * sizeof(float)) != ecclSuccess) return failed("ecclMemAlloc", comm);
  for (int i = 0; i < kCount; ++i) data[i] = (float)(rank + i % 7);
  if (ecclAllReduce(data, data, kCount, ecclFloat32, ecclSum, comm, NULL) != ecclSuccess) {
    return failed("ecclAllReduce", comm);
  }

  for (int i = 0; i < kCount; ++i) { /* 0 + 1 + ... + size-1, and size times i % 7 */
    if (data[i] != (float)(size * (size - 1) / 2 + size * (i % 7))) {
      fprintf(stderr, "rank %d: element %d is %g\n", rank, i, data[i]);
      return EXIT_FAILURE;
    }
  }
  printf("rank %d of %d: %d sums are right\n", rank, size, kCount);
  if (ecclMemFree(data) != ecclSuccess) return failed("ecclMemFree", comm);
  return ecclCommDestroy(comm) == ecclSuccess ? EXIT_SUCCESS : failed("ecclCommDestroy", NULL);
}
