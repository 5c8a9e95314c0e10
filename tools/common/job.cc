#include "tools/common/job.h"

#include <sched.h>

#include <cstdlib>
#include <vector>

namespace eccl::tools {

Outcome takePlace(int procs, int perProcess, int threads, Place* place, Fork* fork) {
  std::optional<Launcher> launcher;
  TOOLS_TRY(detectLauncher(::getenv, &launcher));
  if (procs > 0 && launcher && launcher->size > 1)
    return Outcome::error(Exit::usage, "--procs %d, but %s has started %d processes already; leave --procs out",
                          procs, launcher->name.c_str(), launcher->size);
  *place = {0, 1, perProcess, threads};
  if (procs > 1) {
    place->procs = procs;
    TOOLS_TRY(forkProcesses(procs, perProcess, fork));
    place->proc = fork->proc;
    return {};
  }
  const Launcher alone{"the command line", 0, 1, 1, ""};
  const Launcher& started = procs == 0 && launcher ? *launcher : alone;
  place->proc = started.rank;
  place->procs = started.size;
  return makeRendezvous(started, ::getenv, &fork->rendezvous);
}

void bindToShare(const Place& place) {
  cpu_set_t allowed, share;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<size_t> processors;
  for (size_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &allowed)) processors.push_back(i);
  }
  const size_t each = processors.size() / static_cast<size_t>(place.procs);
  CPU_ZERO(&share);
  for (size_t i = 0; i < each; ++i) CPU_SET(processors[static_cast<size_t>(place.proc) * each + i], &share);
  if (each > 0) sched_setaffinity(0, sizeof share, &share);
}

}  // namespace eccl::tools
