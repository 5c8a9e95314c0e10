#include <eccl/eccl.h>
#include <stdio.h>

/* Prints the version of the library that was loaded; fails unless the headers are of the same version. */
int main(void) {
  int version = 0;
  if (ecclGetVersion(&version) != ecclSuccess) {
    fprintf(stderr, "ecclGetVersion: %s\n", ecclGetLastError(NULL));
    return 1;
  }
  printf("%d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  return version == ECCL_VERSION_CODE ? 0 : 1;
}
