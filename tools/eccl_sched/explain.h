// eccl_sched explain: which algorithm a call takes, why, and what the others would cost.
#pragma once

namespace eccl::sched {

/// The command, with options of its own: `argv` begins with the command. Prints to the standard output; says
/// on stderr what went wrong. Returns the exit code.
int explain(int argc, char** argv);

}  // namespace eccl::sched
