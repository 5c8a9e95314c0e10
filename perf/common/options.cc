#include "common/options.h"

#include <getopt.h>
#include <limits.h>
#include <strings.h>

#include <algorithm>
#include <cstring>

#include "common/number.h"
#include "common/types.h"

namespace eccl::perf {
namespace {

// One row per option: the help text, getopt's two tables and the error messages all come from it.
struct Flag {
  int letter;  // above 255: no short form
  const char* name;
  const char* argument;
  const char* help;
};

constexpr int kProcs = 256;  // ECCL's own option has no letter, so that none is taken from nccl-tests

constexpr Flag kFlags[] = {
    {'t', "nthreads", "count", "threads in each process (1)"},
    {'g', "ngpus", "count", "ranks that each thread drives (1)"},
    {kProcs, "procs", "count", "local processes to start (1)"},
    {'b', "minbytes", "size", "first size; K, M and G are binary (32M)"},
    {'e', "maxbytes", "size", "last size (32M)"},
    {'i', "stepbytes", "size", "distance between sizes (1M)"},
    {'f', "stepfactor", "factor", "ratio between sizes, instead of -i (off)"},
    {'n', "iters", "count", "timed iterations (20)"},
    {'m', "agg_iters", "count", "operations in each iteration, issued as one group (1)"},
    {'w', "warmup_iters", "count", "iterations before the first timed one (1)"},
    {'N', "run_cycles", "count", "times to run the whole sweep; 0 = for ever (1)"},
    {'p', "parallel_init", "0|1", "each thread initialises its own ranks (0)"},
    {'c', "check", "count", "checked iterations at every size (1)"},
    {'o', "op", "sum|prod|min|max|avg|mulsum|all", "reduction (sum)"},
    {'d', "datatype", "type|all",
     "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 (float)"},
    {'r', "root", "rank|all", "root of broadcast, reduce, gather and scatter (0)"},
    {'z', "blocking", "0|1|2|3",
     "1 = wait and barrier after each operation, 2 = wait only, 3 = wait and barrier after each iteration, the "
     "barrier not timed (0)"},
    {'y', "stream_null", "0|1", "use the NULL stream (0)"},
    {'T', "timeout", "seconds", "abort an operation that takes longer; 0 = never (0)"},
    {'G', "cudagraph", "count", "has no meaning for host ranks"},
    {'C', "report_cputime", "0|1", "report the time to issue, not to complete (0)"},
    {'S', "report_timestamps", "0|1", "add the time of day to each row (0)"},
    {'J', "output_file", "file.json", "write the results as JSON too"},
    {'a', "average", "0|1|2|3", "time of rank 0, mean, least, greatest (1)"},
    {'R', "local_register", "0|1|2", "register the buffers: 1 = ordinary memory, 2 = from ecclMemAlloc (0)"},
    {'x', "cta_policy", "0|1|2", "has no meaning for host ranks"},
    {'D', "device_implementation", "number", "only 0: host ranks have no device implementation"},
    {'V', "device_cta_count", "count", "has no meaning for host ranks"},
    {'M', "memory", "0|1", "report the memory used (0)"},
    {'u', "unalign", "elements", "start the buffers this many elements off alignment (0)"},
    {'I', "per_iter_timing", "0|1", "time every iteration by itself, draining the stream after each (0)"},
    {'K', "per_iter_skip", "count", "leave the first samples out of -I's summary (0)"},
    {'h', "help", nullptr, "this text"},
};

const Flag& flagOf(int letter) {
  return *std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& f) { return f.letter == letter; });
}

Outcome wrongValue(int letter, const char* value) {
  const Flag& flag = flagOf(letter);
  return Outcome::error(Exit::usage, "--%s takes <%s> (%s); got '%s'", flag.name, flag.argument, flag.help,
                        value);
}

Outcome integer(int letter, const char* text, long long min, long long max, int* value) {
  long long number;
  if (!parseInteger(text, min, max, &number)) return wrongValue(letter, text);
  *value = static_cast<int>(number);
  return {};
}

Outcome flag(int letter, const char* text, bool* value) {
  int number = 0;
  PERF_TRY(integer(letter, text, 0, 1, &number));
  *value = number != 0;
  return {};
}

Outcome size(int letter, const char* text, size_t* value) {
  return parseSize(text, value) ? Outcome() : wrongValue(letter, text);
}

// The index of `text` among `count` names given by `nameOf`, or kAll.
template <class NameOf>
Outcome choice(int letter, const char* text, int count, NameOf nameOf, int* value) {
  *value = kAll;
  if (std::strcmp(text, "all") == 0) return {};
  for (int i = 0; i < count; ++i) {
    if (std::strcmp(text, nameOf(i)) == 0) {
      *value = i;
      return {};
    }
  }
  return wrongValue(letter, text);
}

Outcome jsonPath(const char* text, std::string* path) {
  *path = text;
  const size_t dot = path->rfind('.');
  if (dot != std::string::npos && strcasecmp(path->c_str() + dot, ".json") == 0) return {};
  return Outcome::error(
      Exit::usage, "--output_file: only JSON can be written, so the name must end in .json; got '%s'", text);
}

// Applies one option. An option without effect on host ranks still has its value checked: a typing error must
// not pass because the option happens to do nothing.
Outcome apply(int letter, const char* text, Options* o) {
  int ignored = 0;
  switch (letter) {
    case 't':
      return integer(letter, text, 1, 4096, &o->threads);
    case 'g':
      return integer(letter, text, 1, 4096, &o->ranksPerThread);
    case kProcs:
      return integer(letter, text, 1, 4096, &o->procs);
    case 'b':
      return size(letter, text, &o->minBytes);
    case 'e':
      return size(letter, text, &o->maxBytes);
    case 'i':
      return size(letter, text, &o->stepBytes);
    case 'f': {
      int factor = 1;
      PERF_TRY(integer(letter, text, 0, INT_MAX, &factor));
      o->stepFactor = static_cast<size_t>(std::max(factor, 1));
      return {};
    }
    case 'n':
      return integer(letter, text, 1, INT_MAX, &o->iterations);
    case 'm':
      return integer(letter, text, 1, INT_MAX, &o->aggregate);
    case 'w':
      return integer(letter, text, 0, INT_MAX, &o->warmup);
    case 'N':
      return integer(letter, text, 0, INT_MAX, &o->cycles);
    case 'p':
      return flag(letter, text, &o->parallelInit);
    case 'c':
      return integer(letter, text, 0, INT_MAX, &o->check);
    case 'o':
      return choice(
          letter, text, kOps, [](int i) { return kOpNames[i]; }, &o->op);
    case 'd':
      return choice(
          letter, text, kTypes, [](int i) { return kTypeInfos[i].name; }, &o->type);
    case 'r':
      if (std::strcmp(text, "all") == 0)
        o->root = kAll;
      else
        return integer(letter, text, kAll, INT_MAX, &o->root);
      return {};
    case 'z':
      return integer(letter, text, 0, 3, &o->blocking);
    case 'y':
      return flag(letter, text, &o->streamNull);
    case 'T':
      return integer(letter, text, 0, INT_MAX, &o->timeoutSeconds);
    case 'G':
      PERF_TRY(integer(letter, text, 0, INT_MAX, &ignored));
      if (ignored > 0)
        o->notes.push_back("--cudagraph: host ranks have no CUDA graphs; every operation is issued directly");
      return {};
    case 'C':
      return flag(letter, text, &o->cpuTime);
    case 'S':
      return flag(letter, text, &o->timestamps);
    case 'J':
      return jsonPath(text, &o->jsonPath);
    case 'a': {
      int average = 0;
      PERF_TRY(integer(letter, text, 0, 3, &average));
      o->average = static_cast<Average>(average);
      return {};
    }
    case 'R':
      return integer(letter, text, 0, 2, &o->localRegister);
    case 'x':
      PERF_TRY(integer(letter, text, 0, 2, &ignored));
      o->notes.push_back("--cta_policy: host ranks have no thread blocks; the policy has no effect");
      return {};
    case 'D':
      PERF_TRY(integer(letter, text, 0, INT_MAX, &ignored));
      if (ignored > 0)
        return Outcome::error(
            Exit::unsupported,
            "--device_implementation %d: host ranks have no device implementation; leave it 0", ignored);
      return {};
    case 'V':
      PERF_TRY(integer(letter, text, 1, 128, &ignored));
      o->notes.push_back("--device_cta_count: host ranks have no thread blocks; the count has no effect");
      return {};
    case 'M':
      return flag(letter, text, &o->memoryReport);
    case 'u':
      PERF_TRY(integer(letter, text, 0, 1 << 20, &ignored));
      o->unalign = static_cast<size_t>(ignored);
      return {};
    case 'I':
      return flag(letter, text, &o->perIteration);
    case 'K':
      return integer(letter, text, 0, INT_MAX, &o->perIterationSkip);
    default:
      o->help = true;
      return {};
  }
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
  std::string shortForms = ":";  // a missing argument is reported as ':'
  std::vector<option> longForms;
  for (const Flag& flag : kFlags) {
    if (flag.letter < 256) {
      shortForms += static_cast<char>(flag.letter);
      if (flag.argument != nullptr) shortForms += ':';
    }
    longForms.push_back(
        {flag.name, flag.argument != nullptr ? required_argument : no_argument, nullptr, flag.letter});
  }
  longForms.push_back({});
  optind = 0;  // glibc: also forget the state of an earlier parse
  opterr = 0;
  for (;;) {
    const int current = optind == 0 ? 1 : optind;
    const int letter = getopt_long(argc, argv, shortForms.c_str(), longForms.data(), nullptr);
    if (letter == -1) break;
    if (letter == '?')
      return Outcome::error(Exit::usage, "unknown option '%s'; -h lists the options", argv[current]);
    if (letter == ':')
      return Outcome::error(Exit::usage, "option '%s' needs a value; -h lists the options", argv[current]);
    PERF_TRY(apply(letter, optarg, options));
  }
  if (optind < argc)
    return Outcome::error(Exit::usage, "'%s' is not an option; -h lists the options", argv[optind]);
  return options->help ? Outcome() : checkTogether(*options);
}

std::string usage(const char* program) {
  std::string text = formatted("USAGE: %s\n", program);
  for (const Flag& flag : kFlags) {
    const std::string shortForm = flag.letter < 256 ? formatted("-%c,", flag.letter) : "   ";
    const std::string argument = flag.argument != nullptr ? formatted(" <%s>", flag.argument) : "";
    text += formatted("  %s--%s%s\n        %s\n", shortForm.c_str(), flag.name, argument.c_str(), flag.help);
  }
  return text + "Environment and launchers: docs/perf.md\n";
}

}  // namespace eccl::perf
