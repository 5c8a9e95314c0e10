// eccl_topo: what a machine is made of, how its parts are connected, and what should be repaired.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cluster.h"
#include "commands.h"
#include "tools/common/command_line.h"
#include "topology/formats/cluster_json.h"
#include "topology/formats/host_formats.h"

namespace {

using namespace eccl;
using tools::Outcome;
using topo::Options;

constexpr char kUsage[] =
    "USAGE: eccl_topo COMMAND [OPTIONS]\n"
    "  show          the machine as a tree, with bandwidths\n"
    "  check         what an operator should repair, with evidence, consequence and remedy; for a file, what\n"
    "                the file alone can show\n"
    "  paths         the path between any two accelerators, adapters and CPUs: type and GB/s\n"
    "  search        trees and rings for collectives on this machine, and how close they come to the bound\n"
    "  draw          the machine as a picture (SVG)\n"
    "  dump          the machine as a file: --format xml (NCCL's) or json (docs/topology.schema.json)\n"
    "  diff A B      what differs between two files, of machines or of clusters\n"
    "  measure       latency, bandwidth and the cost model among running ranks: eccl_topo measure --help\n"
    "  speeds        how fast this machine's memory is, by which algorithms are chosen: eccl_topo speeds --help\n"
    "  clos          makes a cluster of such machines on a rail-optimised Clos network\n";
constexpr char kExitCodes[] =
    "It exits with 0 if all is well, 1 if check found something to repair or diff a difference, 2 if it is "
    "used wrongly,\n"
    "3 if a file cannot be read.\n";

/// One or two numbers with a comma between; the second is the first if it is left out.
Outcome readNumbers(const std::string& option, const char* argument, double* first, double* second) {
  char* end = nullptr;
  *first = std::strtod(argument, &end);
  const char* more = *end == ',' ? end + 1 : argument;
  *second = *end == ',' ? std::strtod(more, &end) : *first;
  if (end != argument && end != more && *end == '\0' && *first >= 0 && *second >= 0) return {};
  return Outcome::error(tools::Exit::usage, "%s %s is not a number, or two with a comma between",
                        option.c_str(), argument);
}

Outcome setHost(const std::string& argument, std::string* host) {
  *host = argument;
  return argument.empty() ? Outcome::error(tools::Exit::usage, "--host needs a host's name or number")
                          : Outcome();
}

Outcome setOversubscription(const std::string& option, const char* argument, topology::ClosShape* clos) {
  TOOLS_TRY(readNumbers(option, argument, &clos->leafOversubscription, &clos->spineOversubscription));
  if (std::strchr(argument, ',') == nullptr) clos->spineOversubscription = 1;
  return {};
}

std::vector<tools::CommandOption> tableFor(Options* o) {
  using namespace tools;
  topology::ClosShape* clos = &o->clos;
  const auto heading = [](const char* text) { return CommandOption{0, nullptr, nullptr, text, {}}; };
  return {
      heading("The machine is this one, unless one of these names another:"),
      {'f', "file", "FILE",
       "a file: NCCL's XML (NCCL_TOPO_DUMP_FILE writes it) or the JSON of dump; or a cluster "
       "(docs/cluster.schema.json), for show, paths, search, draw, diff, and dump as JSON",
       setText(&o->file)},
      {0, "host", "NAME|N", "only that host of a cluster (the first is 0); for every command but diff",
       [o](auto&, const char* argument) { return setHost(argument, &o->host); }},
      {0, "root", "DIR", "a captured machine: a folder with its /proc and /sys", setText(&o->root)},
      heading("For all commands but draw, dump and clos:"),
      {0, "json", nullptr, "output for programs", setFlag(&o->json)},
      heading("For draw, dump and clos:"),
      {'o', "output", "FILE", "instead of the standard output", setText(&o->output)},
      heading("For dump:"),
      {0, "format", "xml|json", "NCCL's XML, or JSON (docs/topology.schema.json)", setText(&o->format)},
      heading("For search on a machine:"),
      {0, "channels", "N", "at most so many channels (32)", setNumber(&o->channels, 1, 1024)},
      heading("For paths in a cluster:"),
      {0, "from", "HOST[/DEVICE]", "paths from there, instead of from the first host", setText(&o->from)},
      heading("For clos:"),
      {0, "hosts", "N", "hosts altogether (1)", setNumber(&clos->hosts, 1, topology::kMaxHosts)},
      {0, "pod", "N", "hosts below one leaf switch of each rail (32)",
       setNumber(&clos->hostsPerPod, 1, topology::kMaxHosts)},
      {0, "radix", "N", "ports of every switch (64)", setNumber(&clos->radix, 1, 1024)},
      {0, "speed", "GB/S[,GB/S]", "of a host's cables (its ports'), and of those between switches (the same)",
       [o, clos](auto& option, const char* argument) {
         o->speedGiven = true;
         return readNumbers(option, argument, &clos->portGigabytes, &clos->trunkGigabytes);
       }},
      {0, "latency", "US", "microseconds of a cable, with half of the switches at its ends (0.5)",
       [clos](auto& option, const char* argument) {
         double ignored;
         return readNumbers(option, argument, &clos->microseconds, &ignored);
       }},
      {0, "oversubscription", "N[,N]", "at the leaves, and at the spines of three tiers (1,1: none)",
       [clos](auto& option, const char* argument) { return setOversubscription(option, argument, clos); }},
      {'h', "help", nullptr, "this text", setFlag(&o->help)},
  };
}

Options parse(int argc, char** argv) {
  Options options;
  options.color = isatty(STDOUT_FILENO) != 0 && getenv("NO_COLOR") == nullptr;
  std::vector<std::string> words;
  const auto table = tableFor(&options);
  const Outcome parsed = tools::parseCommandLine(argc, argv, table, &words);
  if (!parsed.ok()) topo::misused(parsed.text());
  if (options.help || words.empty()) {
    std::fprintf(options.help ? stdout : stderr, "%s%s%s", kUsage, tools::helpText(table).c_str(), kExitCodes);
    std::exit(options.help ? topo::kFine : topo::kMisused);
  }
  options.command = words[0];
  if (options.command == "diff") {
    if (words.size() != 3) topo::misused("diff takes two files");
    if (!options.file.empty() || !options.root.empty())
      topo::misused("diff takes its files without --file and --root");
    options.file = words[1];
    options.other = words[2];
  } else if (words.size() > 1) {
    topo::misused("\"" + words[1] +
                  "\" is one argument too many: give one command, and the machine by --file or --root");
  }
  if (!options.file.empty() && !options.root.empty()) topo::misused("--file or --root, not both");
  if (!options.host.empty() && (options.file.empty() || options.command == "diff"))
    topo::misused("--host needs a cluster in a --file, and does not work with diff");
  if (!options.format.empty() && topology::findHostFormat(options.format) == nullptr) {
    std::string names;
    for (const auto& known : topology::hostFormats())
      names += std::string(names.empty() ? "" : " or ") + known.name;
    topo::misused("--format is " + names + ", not " + options.format);
  }
  return options;
}

/// Ends the program: diff takes two of a kind.
[[noreturn]] void notOfAKind(const std::string& cluster, const std::string& machine) {
  topo::misused(cluster + " is a cluster and " + machine +
                " one machine: dump a host of the cluster by --host");
}

int onHost(const topology::Host& host, const Options& options);

int onCluster(const topology::Cluster& cluster, const Options& options) {
  if (!options.host.empty()) return onHost(topo::hostOf(cluster, options), options);
  if (options.command == "show") return topo::show(cluster, options);
  if (options.command == "dump") return topo::dump(cluster, options);
  if (options.command == "draw") return topo::draw(cluster, options);
  if (options.command == "paths") return topo::paths(cluster, options);
  if (options.command == "search") return topo::search(cluster, options);
  if (options.command != "diff")
    topo::misused(options.command +
                  " takes one machine, and the file is a cluster: choose one of its hosts by --host");
  const Result<std::string> content = topo::readFile(options.other);
  if (!content.ok()) return topo::unreadable(content.status());
  if (!topology::looksLikeCluster(*content)) notOfAKind(options.file, options.other);
  const Result<topology::Cluster> other = topo::parseCluster(*content, options.other);
  return other.ok() ? topo::diff(cluster, *other, options) : topo::unreadable(other.status());
}

int onHost(const topology::Host& host, const Options& options) {
  if (options.command == "show") return topo::show(host, options);
  if (options.command == "dump") return topo::dump(host, options);
  if (options.command == "draw") return topo::draw(host, options);
  if (options.command == "paths") return topo::paths(host, options);
  if (options.command == "search") return topo::search(host, options);
  if (options.command == "check") return topo::check(host, options);
  if (options.command == "clos") return topo::generate(host, options);
  if (options.command != "diff") topo::misused("there is no command \"" + options.command + "\"");
  const Result<std::string> content = topo::readFile(options.other);
  if (!content.ok()) return topo::unreadable(content.status());
  if (topology::looksLikeCluster(*content)) notOfAKind(options.other, options.file);
  const Result<topology::Host> other = topo::parseHost(*content, options.other);
  return other.ok() ? topo::diff(host, *other, options) : topo::unreadable(other.status());
}

int run(const Options& options) {
  if (options.file.empty()) return onHost(topo::probe(options), options);
  const Result<std::string> content = topo::readFile(options.file);
  if (!content.ok()) return topo::unreadable(content.status());
  if (topology::looksLikeCluster(*content)) {
    const Result<topology::Cluster> cluster = topo::parseCluster(*content, options.file);
    return cluster.ok() ? onCluster(*cluster, options) : topo::unreadable(cluster.status());
  }
  if (!options.host.empty()) topo::misused("--host is of a cluster, and " + options.file + " is one machine");
  const Result<topology::Host> host = topo::parseHost(*content, options.file);
  return host.ok() ? onHost(*host, options) : topo::unreadable(host.status());
}

}  // namespace

void eccl::topo::misused(const std::string& why) {
  tools::misused("eccl_topo", why);
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "measure") == 0) return topo::measure(argc - 1, argv + 1);
  if (argc > 1 && std::strcmp(argv[1], "speeds") == 0) return topo::speeds(argc - 1, argv + 1);
  return run(parse(argc, argv));
}
