// The cost model of this machine: by ECCL_COST_FILE, else by the speeds that were measured here, once, and kept
// in a file that a user can read and delete.
#pragma once

#include <string>

#include "algorithms/cost/cost_model.h"
#include "base/settings.h"

namespace eccl::runtime {

/// A cost model, and where it is from.
struct MachineModel {
  algorithms::CostModel model;
  std::string file;  ///< that holds it; empty: default constants
  std::string why;   ///< these are taken; empty where there is a file
};

/// Where the speeds of this machine are kept: settings.speedsFile, else eccl/speeds-… in $XDG_CACHE_HOME or
/// ~/.cache, named by processor, number of processors, kernel, SIMD
/// variant and ECCL's version. Error (invalidUsage): nowhere, and why.
Result<std::string> speedsFileOf(const Settings& settings);

/// The model that rank 0 chooses by. settings.costFile counts first; with it, or settings.deterministic,
/// nothing is measured. Else the file of speeds is read. If there is none, the machine is measured
/// (machine_speeds.h) and the file written. What cannot be measured or kept leaves the default constants, and a
/// line in the log at INFO.
///
/// Each file is looked at once in the life of the process. Meanwhile others who ask wait. Any thread. Errors:
/// CostModel::load()'s, for files that settings name. A file in the usual place that cannot be read is a
/// warning.
Result<MachineModel> machineModel(const Settings& settings);

/// As machineModel(), but measures nothing: for programs that look.
Result<MachineModel> keptModel(const Settings& settings);

/// Measures anew and writes the file, whatever is there. Errors: measureSpeeds()'s, writeTextFile()'s.
Result<MachineModel> measureMachine(const Settings& settings);

}  // namespace eccl::runtime
