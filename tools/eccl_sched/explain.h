// eccl_sched explain: which algorithm a call takes, why, and what the others would cost.
#pragma once

namespace eccl::sched {

/// Has options of its own: `argv` begins with the command. Returns the exit code.
int explain(int argc, char** argv);

}  // namespace eccl::sched
