/* How far apart the first two cores are that this process may use: nanoseconds for a flag to go from the one to
 * the other and back, on stdout. 0: there is one core only. Two hardware threads of a core take some 25, cores
 * with a common cache 60, others 280 (AMD EPYC, family 25 model 17). */
#include "forked.h"

enum { kRounds = 200, kParts = 20, kMostSeconds = 30 };

int main(void) {
  const Loop loop = {.ranks = 2};
  Flag* const flags = share(2 * sizeof(Flag));
  const pid_t other = fork();
  if (other < 0) loopFail("fork: %s", strerror(errno));
  alarm(kMostSeconds); /* whichever is left alone does not spin for ever */
  const int cores = loopPin(other == 0 ? 1 : 0);
  if (cores < 2) {
    if (other != 0) puts("0");
    return EXIT_SUCCESS;
  }
  if (other == 0) {
    for (unsigned long i = 1; i <= kRounds * kParts; ++i) {
      await(&loop, &flags[0], i);
      raise_(&flags[1], i);
    }
    exit(EXIT_SUCCESS);
  }
  double least = 1e18; /* what interrupts makes it longer */
  for (unsigned long part = 0, i = 1; part < kParts; ++part) {
    const double begun = loopNow();
    for (const unsigned long end = i + kRounds; i < end; ++i) {
      raise_(&flags[0], i);
      await(&loop, &flags[1], i);
    }
    const double each = 1e9 * (loopNow() - begun) / kRounds;
    if (each < least) least = each;
  }
  waitpid(other, NULL, 0);
  printf("%.1f\n", least);
  return EXIT_SUCCESS;
}
