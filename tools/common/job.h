// How a tool becomes one process of several: by --procs, or by what has started it.
#pragma once

#include "common/communicators.h"
#include "common/processes.h"

namespace eccl::perf {

/// `procs`: as --procs gives it, 0 if it was not given. Each process has `perProcess` ranks, in `threads`
/// threads. Before any thread is started. Where fork->exitCode is set everything is over.
Outcome takePlace(int procs, int perProcess, int threads, Place* place, Fork* fork);

}  // namespace eccl::perf
