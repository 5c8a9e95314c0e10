// How a tool becomes one process of several: by --procs, or by what has started it.
#pragma once

#include "tools/common/processes.h"

namespace eccl::tools {

/// Where this process's ranks stand among all of the job.
struct Place {
  int proc = 0, procs = 1;
  int perProcess = 1;  ///< ranks in each process
  int threads = 1;     ///< the ranks are shared out among them, in blocks
  int firstRank() const { return proc * perProcess; }
  int nranks() const { return procs * perProcess; }
};

/// `procs`: as --procs gives it, 0 if it was not given. Each process has `perProcess` ranks, in `threads`
/// threads. Before any thread is started. Where fork->exitCode is set everything is over.
Outcome takePlace(int procs, int perProcess, int threads, Place* place, Fork* fork);

/// Binds this process to its share of the processors that it may use, as mpirun does: processes of one host get
/// parts of one size that do not meet. Nothing happens where there are fewer processors than processes, or the
/// kernel refuses. Before any thread is started.
void bindToShare(const Place& place);

}  // namespace eccl::tools
