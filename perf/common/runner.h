// A whole run of a tool.
#pragma once

#include "common/collective.h"

namespace eccl::perf {

/// main() of every tool: parses, starts processes if asked to, joins, measures, reports. Returns the exit
/// code; every error has been said on stderr by then.
int runTool(int argc, char** argv, Collective& collective);

}  // namespace eccl::perf
