// Programs as text: for people, tests and tools. dump() and parse() are each other's inverse.
//
//   program AllReduce rank 0 of 4 root 0 parts 4 channels 1
//   input blocks 1 first 0 stride 1
//   output blocks 1 first 0 stride 1
//   connection 0 send to 1 channel 0 tag 0
//   connection 1 receive from 3 channel 0 tag 0
//   lane 0 channel 0
//     step input[0].part[0+(3-1*i)%4] pre stable -> connection[0]
//     step connection[1], input[0].part[0+(2-1*i)%4] pre -> connection[0] repeat 2
//
// One line each; "#" begins a comment. i counts a step's repetitions. A program ends where the next one begins.
// docs/schedule.md explains the words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "program/program.h"

namespace eccl {

/// The text of one Program, which must be laid out as a Builder does it: steps in the order of the lanes,
/// operands in the order of the steps.
std::string dump(const Program& program);
/// All of them, one after the other.
std::string dumpSchedule(const std::vector<Program>& programs);

/// The Programs a text describes, which may make no sense: verify() judges that. Takes time and memory in
/// proportion to the text. Error: invalidArgument, with the line; not logged, since the caller has the text.
/// A text without a program is an error too.
Result<std::vector<Program>> parse(std::string_view text);

}  // namespace eccl
