// --procs: local processes.
#pragma once

#include <memory>
#include <optional>

#include "tools/common/launch.h"

namespace eccl::tools {

/// What this process is after forkProcesses.
struct Fork {
  std::optional<int> exitCode;  ///< in the parent: everything is over, exit with this
  int proc = 0;                 ///< in a child
  std::unique_ptr<Rendezvous> rendezvous;
};

/// Starts `procs` copies of this process, which must have no threads yet. In a child it returns at once; in the
/// parent after all children have ended: it passes child 0's id on to the others, says on stderr which process
/// died how, gives the others kGraceSeconds to notice by themselves, and then ends them.
Outcome forkProcesses(int procs, int ranksPerProcess, Fork* fork);

inline constexpr int kGraceSeconds = 10;

}  // namespace eccl::tools
