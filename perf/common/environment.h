// The environment variables of the tools themselves.
#pragma once

#include <string>

#include "common/names.h"

namespace eccl::perf {

/// ECCL_TESTS_<name>, else NCCL_TESTS_<name>, else null.
const char* testsVariable(const char* name, const Environment& environment);

/// The group of process `proc`: NCCL_TESTS_SPLIT_MASK=<hex mask> or NCCL_TESTS_SPLIT="<operation><value>",
/// with AND & OR | MOD % DIV /. 0 for every process when neither is set; an error when one cannot be read.
Outcome splitColor(int proc, const Environment& environment, int* color);

}  // namespace eccl::perf
