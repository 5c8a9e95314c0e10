#include "tools/common/job.h"

#include <cstdlib>

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

}  // namespace eccl::tools
