// What the perf tools use of tools/common all the time.
#pragma once

#include "tools/common/environment.h"
#include "tools/common/outcome.h"

namespace eccl::perf {

using tools::Environment;
using tools::Exit;
using tools::formatted;
using tools::Outcome;

}  // namespace eccl::perf
