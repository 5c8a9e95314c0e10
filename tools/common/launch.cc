#include "tools/common/launch.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tools/common/id_file.h"
#include "tools/common/number.h"

namespace eccl::tools {
namespace {

// How one family of launchers says who is who. Order matters: Open MPI sets PMIx's variables too, and both may
// run inside a Slurm job.
struct Dialect {
  const char* name;
  const char* rank;
  std::vector<const char*> sizes;       // the first one that is set counts
  std::vector<const char*> localSizes;  // likewise
  std::vector<const char*> job;         // all that are set, together
};

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> all = {
      {"Open MPI",
       "OMPI_COMM_WORLD_RANK",
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
      {"PMI",
       "PMI_RANK",
       {"PMI_SIZE"},
       {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {"PMIx",
       "PMIX_RANK",
       {"PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {"PMIX_LOCAL_SIZE"},
       {"PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_STEP_ID"}},
      {"torchrun",
       "RANK",
       {"WORLD_SIZE"},
       {"LOCAL_WORLD_SIZE"},
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_PORT"}},
      {"Slurm",
       "SLURM_PROCID",
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
       {},
       {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return all;
}

const char* firstSet(const std::vector<const char*>& names, const Environment& environment,
                     const char** which) {
  for (const char* name : names) {
    *which = name;
    if (const char* value = environment(name)) return value;
  }
  return nullptr;
}

// A batch script runs once, outside of any step, with the job's SLURM_NTASKS in its environment.
bool isBatchScript(const Dialect& dialect, const Environment& environment) {
  return std::string_view(dialect.name) == "Slurm" && environment("SLURM_JOB_ID") != nullptr &&
         environment("SLURM_STEP_ID") == nullptr;
}

bool allOnOneSlurmNode(const Environment& environment) {
  const char* which;
  const char* nodes =
      firstSet({"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, environment, &which);
  return nodes != nullptr && std::string_view(nodes) == "1";
}

// A size the launcher does not give stays 0: unknown, and never taken for "all here".
Outcome readLauncher(const Dialect& dialect, const Environment& environment, Launcher* launcher) {
  const char* sizeName = nullptr;
  const char* rankText = environment(dialect.rank);
  const char* sizeText = firstSet(dialect.sizes, environment, &sizeName);
  long long rank, size;
  if (!parseInteger(sizeText, 1, INT_MAX, &size) || !parseInteger(rankText, 0, size - 1, &rank))
    return Outcome::error(Exit::usage, "%s=%s and %s=%s do not name a process of a job", dialect.rank, rankText,
                          sizeName, sizeText);
  launcher->name = dialect.name;
  launcher->rank = static_cast<int>(rank);
  launcher->size = static_cast<int>(size);
  const char* localName;
  long long local = 0;
  if (const char* text = firstSet(dialect.localSizes, environment, &localName))
    parseInteger(text, 1, size, &local);
  else if (allOnOneSlurmNode(environment))
    local = size;
  launcher->localSize = static_cast<int>(local);
  for (const char* name : dialect.job)
    if (const char* value = environment(name))
      launcher->job += std::string(launcher->job.empty() ? "" : ".") + value;
  return {};
}

bool secretIsSet(const Environment& environment) {
  return environment("ECCL_COMM_SECRET") != nullptr || environment("ECCL_COMM_SECRET_FILE") != nullptr;
}

// "host:port" of the port after torchrun's own, which the agent listens on.
Outcome masterAddress(const Environment& environment, std::string* address) {
  const char* host = environment("MASTER_ADDR");
  const char* portText = environment("MASTER_PORT");
  long long port;
  if (!parseInteger(portText, 1, 65534, &port))
    return Outcome::error(Exit::usage,
                          "MASTER_PORT=%s: the tools use the port after it, so it must be from 1 to 65534",
                          portText);
  const bool isIpv6 = std::string_view(host).find(':') != std::string_view::npos;
  *address = formatted(isIpv6 ? "[%s]:%lld" : "%s:%lld", host, port + 1);
  return {};
}

}  // namespace

Outcome detectLauncher(const Environment& environment, std::optional<Launcher>* launcher) {
  launcher->reset();
  for (const Dialect& dialect : dialects()) {
    const char* which;
    if (environment(dialect.rank) == nullptr || firstSet(dialect.sizes, environment, &which) == nullptr)
      continue;
    if (isBatchScript(dialect, environment)) continue;
    TOOLS_TRY(readLauncher(dialect, environment, &launcher->emplace()));
    return {};
  }
  if (environment("PMIX_RANK") != nullptr)
    return Outcome::error(Exit::usage,
                          "PMIX_RANK is set but nothing says how many processes there are; set PMIX_SIZE");
  return {};
}

Outcome makeRendezvous(const Launcher& launcher, const Environment& environment,
                       std::unique_ptr<Rendezvous>* result) {
  const bool addressGiven = environment("ECCL_COMM_ID") != nullptr || environment("NCCL_COMM_ID") != nullptr;
  if (launcher.size == 1 || addressGiven) {
    *result = std::make_unique<DirectRendezvous>();
    return {};
  }
  if (environment("MASTER_ADDR") != nullptr && environment("MASTER_PORT") != nullptr &&
      secretIsSet(environment)) {
    std::string address;
    TOOLS_TRY(masterAddress(environment, &address));
    if (setenv("ECCL_COMM_ID", address.c_str(), 1) != 0)
      return Outcome::fromErrno(errno, "setting ECCL_COMM_ID");
    *result = std::make_unique<DirectRendezvous>();
    return {};
  }
  if (launcher.localSize == launcher.size) {
    *result = std::make_unique<FileRendezvous>(idFileName(launcher.job), launcher.rank);
    return {};
  }
  return Outcome::error(Exit::usage,
                        "%s started %d processes, not all known to be on this host, and there is no address at "
                        "which they could meet. "
                        "Set ECCL_COMM_ID=<host of rank 0>:<free port> for all of them, and "
                        "ECCL_COMM_SECRET_FILE=<file with mode 0600> "
                        "(or ECCL_COMM_SECRET)%s",
                        launcher.name.c_str(), launcher.size,
                        environment("MASTER_ADDR") != nullptr
                            ? "; the secret is enough where MASTER_ADDR and MASTER_PORT are set"
                            : "");
}

}  // namespace eccl::tools
