// The command line: nccl-tests' options with nccl-tests' defaults, and --procs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/names.h"

namespace eccl::perf {

/// -a: how the ranks' times become one number.
enum class Average : int { firstRank, mean, least, greatest };

inline constexpr int kAll = -1;  ///< "all" of -o, -d and -r

struct Options {
  int threads = 1;
  int ranksPerThread = 1;
  int procs = 0;  ///< local processes to start; 0 = not asked for
  int bind = 1;   ///< each of them to its share of the processors
  size_t minBytes = size_t{32} << 20;
  size_t maxBytes = size_t{32} << 20;
  size_t stepBytes = size_t{1} << 20;
  size_t stepFactor = 1;  ///< 1 = steps are added, not multiplied
  int iterations = 20;
  int warmup = 1;
  int aggregate = 1;
  int cycles = 1;  ///< 0 = for ever
  bool parallelInit = false;
  int check = 1;
  int op = 0;    ///< index into kOpNames, or kAll
  int type = 7;  ///< ecclDataType_t, or kAll
  int root = 0;  ///< or kAll
  int blocking = 0;
  bool streamNull = false;
  int timeoutSeconds = 0;  ///< 0 = none
  bool cpuTime = false;
  bool timestamps = false;
  std::string jsonPath;
  Average average = Average::mean;
  int localRegister = 0;
  bool memoryReport = false;
  size_t unalign = 0;
  bool perIteration = false;
  int perIterationSkip = 0;
  int consistency = 0;  ///< runs of each size; 0: one, of which nothing more is said
  bool linkReport = false;

  bool help = false;
  /// One sentence for each option that was accepted and has no effect on host ranks.
  std::vector<std::string> notes;

  int ranksPerProcess() const { return threads * ranksPerThread; }
  /// The size that follows `bytes` in the sweep. Zero bytes can be the first size only.
  size_t nextSize(size_t bytes) const;
};

/// Fills `options` from the command line. Every wrong value is an error of kind usage that names the option;
/// what host ranks cannot do at all is an error of kind unsupported.
Outcome parseOptions(int argc, char** argv, Options* options);

std::string usage(const char* program);

}  // namespace eccl::perf
