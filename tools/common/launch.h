// Which process of the job this is, as the launcher's environment says. No launcher library is needed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tools/common/environment.h"
#include "tools/common/outcome.h"

namespace eccl::tools {

struct Launcher {
  std::string name;  ///< for messages
  int rank = 0, size = 1;
  int localSize = 0;  ///< processes on this host; 0 = the launcher does not say
  std::string job;    ///< what distinguishes this job on this host from others of the same user
};

/// Looks for, in this order: Open MPI (OMPI_COMM_WORLD_RANK, _SIZE), MPICH and other PMI launchers (PMI_RANK,
/// PMI_SIZE), PMIx under Slurm (PMIX_RANK, SLURM_NTASKS), torchrun (RANK, WORLD_SIZE), Slurm (SLURM_PROCID,
/// SLURM_NTASKS). Empty when there is none; an error when the variables make no sense.
Outcome detectLauncher(const Environment& environment, std::optional<Launcher>* launcher);

/// How the ranks of a job get the same id.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  /// The id of this job; may wait for another process. Called once.
  virtual Outcome id(ecclUniqueId* id) = 0;
  /// All ranks have joined; nothing must stay behind.
  virtual void joined() {}
};

/// For a job of one process, and where ECCL_COMM_ID gives every process the same id.
class DirectRendezvous final : public Rendezvous {
 public:
  Outcome id(ecclUniqueId* id) override {
    return Outcome::library(ecclGetUniqueId(id), nullptr, "ecclGetUniqueId");
  }
};

/// ECCL_COMM_ID when it is set; torchrun's MASTER_ADDR and the port after MASTER_PORT when a secret is set; on
/// one host a private file. May set ECCL_COMM_ID, so call it before any thread starts.
Outcome makeRendezvous(const Launcher& launcher, const Environment& environment,
                       std::unique_ptr<Rendezvous>* result);

}  // namespace eccl::tools
