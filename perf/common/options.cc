#include "common/options.h"

#include <strings.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "common/types.h"
#include "tools/common/command_line.h"

namespace eccl::perf {
namespace {

using tools::Apply;
using tools::CommandOption;
using tools::setFlag;
using tools::setNumber;
using tools::setSize;

Outcome wrongValue(const std::string& option, const std::string& wanted, const char* argument) {
  return Outcome::error(Exit::usage, "%s takes %s; got '%s'", option.c_str(), wanted.c_str(), argument);
}

// The index among `count` names given by `nameOf`, or kAll.
Apply setChoice(int* value, int count, const char* (*nameOf)(int)) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    std::string wanted;
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(argument, nameOf(i)) == 0) return *value = i, Outcome();
      wanted += std::string(nameOf(i)) + " ";
    }
    *value = kAll;
    return std::strcmp(argument, "all") == 0 ? Outcome() : wrongValue(option, wanted + "or all", argument);
  };
}

Apply setRoot(int* root) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    if (std::strcmp(argument, "all") == 0) return *root = kAll, Outcome();
    return setNumber(root, kAll)(option, argument);
  };
}

Apply setJsonPath(std::string* path) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    *path = argument;
    const size_t dot = path->rfind('.');
    if (dot != std::string::npos && strcasecmp(path->c_str() + dot, ".json") == 0) return {};
    return wrongValue(option, "a name that ends in .json, as only JSON can be written", argument);
  };
}

// An option without effect on host ranks. Its value is checked all the same: a typing error must not pass
// because the option happens to do nothing. Values from `from` on deserve a note.
Apply noted(std::vector<std::string>* notes, int least, int most, int from, const char* note) {
  return [=](const std::string& option, const char* argument) -> Outcome {
    int number = 0;
    TOOLS_TRY(setNumber(&number, least, most)(option, argument));
    if (number >= from) notes->push_back(option + ": " + note);
    return {};
  };
}

Outcome refuseDevice(const std::string& option, const char* argument) {
  int number = 0;
  TOOLS_TRY(setNumber(&number, 0)(option, argument));
  if (number == 0) return {};
  return Outcome::error(Exit::unsupported, "%s %d: host ranks have no device implementation; leave it 0",
                        option.c_str(), number);
}

// ECCL's own options, such as --procs, have no letter, so that none is taken from nccl-tests.
std::vector<CommandOption> tableFor(Options* o) {
  return {
      {'t', "nthreads", "<count>", "threads in each process (1)", setNumber(&o->threads, 1, 4096)},
      {'g', "ngpus", "<count>", "ranks that each thread drives (1)", setNumber(&o->ranksPerThread, 1, 4096)},
      {0, "procs", "<count>", "local processes to start (1)", setNumber(&o->procs, 1, 4096)},
      {0, "bind", "<0|1>", "bind each of --procs to its share of the processors (1)",
       setNumber(&o->bind, 0, 1)},
      {'b', "minbytes", "<size>", "first size; K, M and G are binary (32M)", setSize(&o->minBytes)},
      {'e', "maxbytes", "<size>", "last size (32M)", setSize(&o->maxBytes)},
      {'i', "stepbytes", "<size>", "distance between sizes (1M)", setSize(&o->stepBytes)},
      {'f', "stepfactor", "<factor>", "ratio between sizes, instead of -i (off)", setNumber(&o->stepFactor, 0)},
      {'n', "iters", "<count>", "timed iterations (20)", setNumber(&o->iterations, 1)},
      {'m', "agg_iters", "<count>", "operations in each iteration, issued as one group (1)",
       setNumber(&o->aggregate, 1)},
      {'w', "warmup_iters", "<count>", "iterations before the first timed one (1)", setNumber(&o->warmup, 0)},
      {'N', "run_cycles", "<count>", "times to run the whole sweep; 0 = for ever (1)",
       setNumber(&o->cycles, 0)},
      {'p', "parallel_init", "<0|1>", "each thread initialises its own ranks (0)",
       setNumber(&o->parallelInit, 0, 1)},
      {'c', "check", "<count>", "checked iterations at every size (1)", setNumber(&o->check, 0)},
      {'o', "op", "<sum|prod|min|max|avg|mulsum|all>", "reduction (sum)",
       setChoice(&o->op, kOps, [](int i) { return kOpNames[i]; })},
      {'d', "datatype", "<type|all>",
       "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 (float)",
       setChoice(&o->type, kTypes, [](int i) { return kTypeInfos[i].name; })},
      {'r', "root", "<rank|all>", "root of broadcast, reduce, gather and scatter (0)", setRoot(&o->root)},
      {'z', "blocking", "<0|1|2|3>",
       "1 = wait and barrier after each operation, 2 = wait only, 3 = wait and barrier after each iteration, "
       "the barrier not timed (0)",
       setNumber(&o->blocking, 0, 3)},
      {'y', "stream_null", "<0|1>", "use the NULL stream (0)", setNumber(&o->streamNull, 0, 1)},
      {'T', "timeout", "<seconds>", "abort an operation that takes longer; 0 = never (0)",
       setNumber(&o->timeoutSeconds, 0)},
      {'G', "cudagraph", "<count>", "has no meaning for host ranks",
       noted(&o->notes, 0, INT_MAX, 1, "host ranks have no CUDA graphs; every operation is issued directly")},
      {'C', "report_cputime", "<0|1>", "report the time to issue, not to complete (0)",
       setNumber(&o->cpuTime, 0, 1)},
      {'S', "report_timestamps", "<0|1>", "add the time of day to each row (0)",
       setNumber(&o->timestamps, 0, 1)},
      {'J', "output_file", "<file.json>", "write the results as JSON too", setJsonPath(&o->jsonPath)},
      {'a', "average", "<0|1|2|3>", "time of rank 0, mean, least, greatest (1)", setNumber(&o->average, 0, 3)},
      {'R', "local_register", "<0|1|2>", "register the buffers: 1 = ordinary memory, 2 = from ecclMemAlloc (0)",
       setNumber(&o->localRegister, 0, 2)},
      {'x', "cta_policy", "<0|1|2>", "has no meaning for host ranks",
       noted(&o->notes, 0, 2, 0, "host ranks have no thread blocks; the policy has no effect")},
      {'D', "device_implementation", "<number>", "only 0: host ranks have no device implementation",
       refuseDevice},
      {'V', "device_cta_count", "<count>", "has no meaning for host ranks",
       noted(&o->notes, 1, 128, 1, "host ranks have no thread blocks; the count has no effect")},
      {'M', "memory", "<0|1>", "report the memory used (0)", setNumber(&o->memoryReport, 0, 1)},
      {'u', "unalign", "<elements>", "start the buffers this many elements off alignment (0)",
       setNumber(&o->unalign, 0, 1 << 20)},
      {'I', "per_iter_timing", "<0|1>", "time every iteration by itself, draining the stream after each (0)",
       setNumber(&o->perIteration, 0, 1)},
      {'K', "per_iter_skip", "<count>", "leave the first samples out of -I's summary (0)",
       setNumber(&o->perIterationSkip, 0)},
      {0, "report_links", "<0|1>", "after the table, what each rank has sent over each rail, and how well (0)",
       setNumber(&o->linkReport, 0, 1)},
      {0, "consistency", "<runs>",
       "run each size so many times, show the median, and the slowest and the fastest run relative to it (off)",
       setNumber(&o->consistency, 3, 1 << 20)},
      {'h', "help", nullptr, "this text", setFlag(&o->help)},
  };
}

// What only makes sense in combination; called when all options are known.
Outcome checkTogether(const Options& o) {
  if (o.minBytes > o.maxBytes)
    return Outcome::error(Exit::usage,
                          "--minbytes %zu is more than --maxbytes %zu (either is 32M unless given)", o.minBytes,
                          o.maxBytes);
  if (o.stepFactor == 1 && o.stepBytes == 0 && o.minBytes < o.maxBytes)
    return Outcome::error(Exit::usage,
                          "--stepbytes 0 would never reach --maxbytes; give a step or a --stepfactor");
  if (o.perIterationSkip > 0 && !o.perIteration)
    return Outcome::error(Exit::usage, "--per_iter_skip needs --per_iter_timing 1");
  if (o.consistency > 0 && o.perIteration)
    return Outcome::error(Exit::usage, "--consistency and --per_iter_timing 1: choose one");
  if (o.perIterationSkip >= o.iterations)
    return Outcome::error(Exit::usage, "--per_iter_skip %d leaves none of the %d iterations",
                          o.perIterationSkip, o.iterations);
  return {};
}

}  // namespace

size_t Options::nextSize(size_t bytes) const {
  const bool over = stepFactor > 1 ? bytes > maxBytes / stepFactor : stepBytes == 0;
  if (over) return maxBytes + 1;  // without the product, which could wrap
  return stepFactor > 1 ? std::max<size_t>(bytes * stepFactor, 1) : bytes + stepBytes;
}

Outcome parseOptions(int argc, char** argv, Options* options) {
  const Outcome parsed = tools::parseCommandLine(argc, argv, tableFor(options), nullptr);
  if (!parsed.ok()) return Outcome::error(parsed.code(), "%s; -h lists the options", parsed.text().c_str());
  options->stepFactor = std::max<size_t>(options->stepFactor, 1);
  return options->help ? Outcome() : checkTogether(*options);
}

std::string usage(const char* program) {
  Options options;
  return formatted("USAGE: %s\n%sEnvironment and launchers: docs/perf.md\n", program,
                   tools::helpText(tableFor(&options)).c_str());
}

}  // namespace eccl::perf
