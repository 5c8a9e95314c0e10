// eccl_sched: schedules as text. Prints what the algorithms build, and proves or refutes that and what people
// write.
#include <strings.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "algorithms/library/algorithm.h"
#include "algorithms/verify/verify.h"
#include "base/text_file.h"
#include "explain.h"
#include "program/text.h"
#include "tools/common/command_line.h"

namespace {

namespace tools = eccl::tools;
using eccl::Program;
using eccl::algorithms::Algorithm;

constexpr char kUsage[] =
    "USAGE: eccl_sched COMMAND [FILE] [OPTIONS]\n"
    "  list                every algorithm\n"
    "  dump CALL           the programs of all ranks, or of --rank R, as text\n"
    "  verify CALL|FILE    prove a schedule correct, or say what is wrong with it\n"
    "  explain             which algorithm a call takes, why, and what others would cost: explain --help\n"
    "  parse FILE          check that a text can be read and written back; summarise it\n"
    "A FILE holds programs as dump writes them; - is the standard input. A CALL is\n";
constexpr char kExitCodes[] =
    "It exits with 0 if all is well, 1 if something is refuted or does not parse, 2 if it is used wrongly.\n";

struct Options {
  std::string collective, algorithm, file;
  int ranks = 0, channels = 1, root = 0, rank = -1, hosts = 0;  // hosts 0: not given
  bool all = false, inPlace = false, outOfPlace = false, help = false;
};

std::vector<tools::CommandOption> tableFor(Options* o) {
  using namespace tools;
  constexpr int kMaxRanks = 1 << 15;
  return {
      {'c', "collective", "NAME", "AllReduce, AllGather, ... (see list)", setText(&o->collective)},
      {'a', "algorithm", "NAME", "ring, tree, ... (see list)", setText(&o->algorithm)},
      {'n', "ranks", "N", "", setNumber(&o->ranks, 1, kMaxRanks)},
      {0, "channels", "N", "(1)", setNumber(&o->channels, 1, 1024)},
      {0, "hosts", "H", "the ranks are on H hosts, N/H next to each other on each (1; verify looks at some)",
       setNumber(&o->hosts, 1, kMaxRanks)},
      {0, "root", "R", "(0)", setNumber(&o->root, 0, kMaxRanks - 1)},
      {0, nullptr, nullptr, "For dump:", {}},
      {'r', "rank", "R", "only this rank's program", setNumber(&o->rank, 0, kMaxRanks - 1)},
      {0, nullptr, nullptr, "For verify, which proves in place and out of place unless told otherwise:", {}},
      {0, "all", nullptr, "every algorithm, or every one of --collective", setFlag(&o->all)},
      {0, "in-place", nullptr, "input and output in one buffer", setFlag(&o->inPlace)},
      {0, "out-of-place", nullptr, "two buffers", setFlag(&o->outOfPlace)},
      {'h', "help", nullptr, "this text", setFlag(&o->help)},
  };
}

std::string usage() {
  Options options;
  return kUsage + tools::helpText(tableFor(&options)) + kExitCodes;
}

[[noreturn]] void misused(const std::string& why) {
  tools::misused("eccl_sched", why);
}

Options parseOptions(int argc, char** argv) {
  Options options;
  std::vector<std::string> words;
  const tools::Outcome parsed = tools::parseCommandLine(argc, argv, tableFor(&options), &words);
  if (!parsed.ok()) misused(parsed.text());
  if (words.size() > 1) misused(eccl::format("'%s' is one argument too many", words[1].c_str()));
  if (!words.empty()) options.file = words[0];
  if (!options.inPlace && !options.outOfPlace) options.inPlace = options.outOfPlace = true;
  return options;
}

/// The numbers of hosts to look at: the one given, or some, as only hierarchical algorithms care.
std::vector<int> hostsFor(const Algorithm& algorithm, const Options& options) {
  if (options.hosts > 0 || !algorithm.hierarchical()) return {std::max(options.hosts, 1)};
  std::vector<int> some;
  for (int hosts = 1; hosts < options.ranks; hosts += (hosts + 1) / 2) some.push_back(hosts);
  some.push_back(options.ranks);
  return some;
}

/// The algorithms the options name; at least one.
std::vector<const Algorithm*> chosen(const Options& options) {
  if (options.ranks == 0) misused("--ranks is missing");
  if (options.root >= options.ranks)
    misused(eccl::format("--root %d is not a rank; there are %d", options.root, options.ranks));
  if (options.hosts > options.ranks)
    misused(eccl::format("--hosts %d are more than %d ranks", options.hosts, options.ranks));
  if (!options.all && (options.collective.empty() || options.algorithm.empty())) {
    misused("--collective and --algorithm are needed");
  }
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : eccl::algorithms::algorithms()) {
    const char* collective = eccl::nameOf(algorithm.collective);
    if (!options.collective.empty() && strcasecmp(options.collective.c_str(), collective) != 0) continue;
    if (!options.algorithm.empty() && options.algorithm != algorithm.name) continue;
    found.push_back(&algorithm);
  }
  if (found.empty()) {
    misused(eccl::format("there is no algorithm '%s' for '%s': eccl_sched list", options.algorithm.c_str(),
                         options.collective.c_str()));
  }
  return found;
}

std::vector<Program> build(const Algorithm& algorithm, const Options& options, int hosts) {
  const int root = eccl::hasRoot(algorithm.collective) ? options.root : 0;
  return eccl::algorithms::buildAll(algorithm, {algorithm.collective, options.ranks, root},
                                    eccl::Placement::blocks(options.ranks, hosts), options.channels);
}

std::string nameOfFile(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

std::string readAll(const std::string& path) {
  constexpr size_t kMax = size_t{256} << 20;  // AllReduce by direct among 1024 ranks has 194 MB
  auto text = eccl::readTextFile(path == "-" ? "/dev/stdin" : path, "the schedule", kMax);
  if (!text.ok()) misused(text.status().message());
  return text.take();
}

/// The programs in a file; exits with 1 if it does not parse.
std::vector<Program> programsIn(const std::string& path) {
  auto programs = eccl::parse(readAll(path));
  if (programs.ok()) return programs.take();
  std::fprintf(stderr, "%s: %s\n", nameOfFile(path).c_str(), programs.status().message().c_str());
  std::exit(1);
}

/// "AllReduce ring, 4 ranks, 1 channel".
std::string titleOf(const std::string& name, const Program& first) {
  return eccl::format("%s %s, %d rank%s, %d channel%s", eccl::nameOf(first.collective), name.c_str(),
                      first.ranks, first.ranks == 1 ? "" : "s", first.channels, first.channels == 1 ? "" : "s");
}

bool verifyOne(const std::string& title, const std::vector<Program>& programs, bool inPlace) {
  const auto begin = std::chrono::steady_clock::now();
  const eccl::algorithms::Verdict verdict = eccl::algorithms::verify(programs, inPlace);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const std::string where = title + (inPlace ? ", in place" : ", out of place");
  if (verdict.ok) {
    std::printf("%s: ok, minSlots %d, %lld moves per tile, verified in %.1f ms\n", where.c_str(),
                verdict.minSlots, static_cast<long long>(verdict.moves), took.count());
  } else {
    std::printf("%s: %s: %s\n", where.c_str(), verdict.gaveUp ? "NOT VERIFIED" : "REFUTED",
                verdict.reason.c_str());
  }
  return verdict.ok;
}

int verifyPlaces(const std::string& name, const std::vector<Program>& programs, const Options& options) {
  const std::string title = titleOf(name, programs[0]);
  bool ok = true;
  if (options.outOfPlace) ok = verifyOne(title, programs, false);
  if (options.inPlace) ok = verifyOne(title, programs, true) && ok;
  return ok ? 0 : 1;
}

int verifyCommand(const Options& options) {
  if (!options.file.empty()) {
    return verifyPlaces("from " + nameOfFile(options.file), programsIn(options.file), options);
  }
  int result = 0;
  for (const Algorithm* algorithm : chosen(options)) {
    for (int hosts : hostsFor(*algorithm, options)) {
      const std::string where = hosts > 1 ? eccl::format(" on %d hosts", hosts) : "";
      result |= verifyPlaces(algorithm->name + where, build(*algorithm, options, hosts), options);
    }
  }
  return result;
}

int dumpCommand(const Options& options) {
  if (options.all) misused("dump takes one algorithm, not --all");
  if (options.rank >= options.ranks)
    misused(eccl::format("--rank %d is not a rank; there are %d", options.rank, options.ranks));
  const std::vector<Program> programs = build(*chosen(options)[0], options, std::max(options.hosts, 1));
  std::fputs((options.rank < 0 ? dumpSchedule(programs) : dump(programs[options.rank])).c_str(), stdout);
  return 0;
}

int parseCommand(const Options& options) {
  if (options.file.empty()) misused("parse takes a FILE");
  const std::vector<Program> programs = programsIn(options.file);
  size_t lanes = 0, steps = 0, connections = 0;
  for (const Program& program : programs) {
    lanes += program.lanes.size();
    steps += program.steps.size();
    connections += program.connections.size();
  }
  auto again = eccl::parse(dumpSchedule(programs));
  if (!again.ok() || *again != programs) {
    std::printf("what was read is not what its dump says: this is a bug in eccl_sched\n");
    return 1;
  }
  std::printf("%zu programs, the first for %s of %d ranks; %zu connection ends, %zu lanes, %zu steps\n",
              programs.size(), eccl::nameOf(programs[0].collective), programs[0].ranks, connections, lanes,
              steps);
  return 0;
}

int listCommand() {
  for (const Algorithm& algorithm : eccl::algorithms::algorithms()) {
    std::printf("%-14s %s\n", eccl::nameOf(algorithm.collective), algorithm.name);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs(usage().c_str(), stderr);
    return 2;
  }
  const std::string command = argv[1];
  if (command == "explain") return eccl::sched::explain(argc - 1, argv + 1);
  const bool isOption = command[0] == '-';  // --help
  const Options options = parseOptions(isOption ? argc : argc - 1, isOption ? argv : argv + 1);
  if (options.help) return std::fputs(usage().c_str(), stdout), 0;
  if (command == "dump") return dumpCommand(options);
  if (command == "verify") return verifyCommand(options);
  if (command == "parse") return parseCommand(options);
  if (command == "list") return listCommand();
  misused("there is no command '" + command + "'");
}
