// eccl_topo: what a machine is made of, how its parts are connected, and what should be repaired.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

#include "cluster.h"
#include "commands.h"
#include "topology/formats/cluster_json.h"
#include "topology/formats/host_formats.h"

namespace {

using namespace eccl;
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
    "  clos          makes a cluster of such machines on a rail-optimised Clos network\n"
    "The machine is this one, unless one of these names another:\n"
    "  -f, --file FILE     a file: NCCL's XML (NCCL_TOPO_DUMP_FILE writes it) or the JSON of dump; or\n"
    "                      a cluster (docs/cluster.schema.json), for show, paths, search, draw, diff, and "
    "dump\n"
    "                      as JSON\n"
    "      --host NAME|N   only that host of a cluster (the first is 0); for every command but diff\n"
    "      --root DIR      a captured machine: a folder with its /proc and /sys\n"
    "For all commands but draw, dump and clos:\n"
    "      --json          output for programs\n"
    "For draw, dump and clos:\n"
    "  -o, --output FILE   instead of the standard output\n"
    "For search on a machine:\n"
    "      --channels N    at most so many channels (32)\n"
    "For paths in a cluster:\n"
    "      --from HOST[/DEVICE]  paths from there, instead of from the first host\n"
    "For clos:\n"
    "      --hosts N             hosts altogether (1)\n"
    "      --pod N               hosts below one leaf switch of each rail (32)\n"
    "      --radix N             ports of every switch (64)\n"
    "      --speed GB/S[,GB/S]   of a host's cables (its ports'), and of those between switches (the same)\n"
    "      --latency US          microseconds of a cable, with half of the switches at its ends (0.5)\n"
    "      --oversubscription N[,N]  at the leaves, and at the spines of three tiers (1,1: none)\n"
    "  -h, --help\n"
    "It exits with 0 if all is well, 1 if check found something to repair or diff a difference, 2 if it is "
    "used wrongly,\n"
    "3 if a file cannot be read.\n";

/// What getopt has found, from 1 on.
int wholeNumber(const char* option, int most) {
  char* end = nullptr;
  const long number = std::strtol(optarg, &end, 10);
  if (end == optarg || *end != '\0' || number < 1 || number > most)
    topo::misused(format("%s %s is not a number from 1 to %d", option, optarg, most));
  return static_cast<int>(number);
}

/// One or two numbers with a comma between; the second is the first if it is left out.
std::pair<double, double> numbers(const char* option) {
  char* end = nullptr;
  const double first = std::strtod(optarg, &end);
  const char* more = *end == ',' ? end + 1 : optarg;
  const double second = *end == ',' ? std::strtod(more, &end) : first;
  if (end == optarg || end == more || *end != '\0' || !(first >= 0) || !(second >= 0))
    topo::misused(format("%s %s is not a number, or two with a comma between", option, optarg));
  return {first, second};
}

Options parse(int argc, char** argv) {
  enum {
    kRoot = 256,
    kFormat,
    kJson,
    kChannels,
    kFrom,
    kHost,
    kHosts,
    kPod,
    kRadix,
    kSpeed,
    kLatency,
    kOversubscription
  };
  static const option kOptions[] = {{"file", required_argument, nullptr, 'f'},
                                    {"root", required_argument, nullptr, kRoot},
                                    {"format", required_argument, nullptr, kFormat},
                                    {"output", required_argument, nullptr, 'o'},
                                    {"json", no_argument, nullptr, kJson},
                                    {"channels", required_argument, nullptr, kChannels},
                                    {"from", required_argument, nullptr, kFrom},
                                    {"host", required_argument, nullptr, kHost},
                                    {"hosts", required_argument, nullptr, kHosts},
                                    {"pod", required_argument, nullptr, kPod},
                                    {"radix", required_argument, nullptr, kRadix},
                                    {"speed", required_argument, nullptr, kSpeed},
                                    {"latency", required_argument, nullptr, kLatency},
                                    {"oversubscription", required_argument, nullptr, kOversubscription},
                                    {"help", no_argument, nullptr, 'h'},
                                    {}};
  Options options;
  options.color = isatty(STDOUT_FILENO) != 0 && getenv("NO_COLOR") == nullptr;
  for (int found; (found = getopt_long(argc, argv, "f:o:h", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 'f':
        options.file = optarg;
        break;
      case 'o':
        options.output = optarg;
        break;
      case kRoot:
        options.root = optarg;
        break;
      case kFormat:
        options.format = optarg;
        break;
      case kJson:
        options.json = true;
        break;
      case kChannels:
        options.channels = wholeNumber("--channels", 1024);
        break;
      case kFrom:
        options.from = optarg;
        break;
      case kHost:
        options.host = optarg;
        if (options.host.empty()) topo::misused("--host needs a host's name or number");
        break;
      case kHosts:
        options.clos.hosts = wholeNumber("--hosts", topology::kMaxHosts);
        break;
      case kPod:
        options.clos.hostsPerPod = wholeNumber("--pod", topology::kMaxHosts);
        break;
      case kRadix:
        options.clos.radix = wholeNumber("--radix", 1024);
        break;
      case kSpeed:
        std::tie(options.clos.portGigabytes, options.clos.trunkGigabytes) = numbers("--speed");
        options.speedGiven = true;
        break;
      case kLatency:
        options.clos.microseconds = numbers("--latency").first;
        break;
      case kOversubscription: {
        const bool both = std::strchr(optarg, ',') != nullptr;
        std::tie(options.clos.leafOversubscription, options.clos.spineOversubscription) =
            numbers("--oversubscription");
        if (!both) options.clos.spineOversubscription = 1;
        break;
      }
      case 'h':
        std::fputs(kUsage, stdout);
        std::exit(topo::kFine);
      default:
        std::exit(topo::kMisused);  // getopt has said why
    }
  }
  std::vector<std::string> words(argv + optind, argv + argc);
  if (words.empty()) {
    std::fputs(kUsage, stderr);
    std::exit(topo::kMisused);
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
  std::fprintf(stderr, "eccl_topo: %s; see eccl_topo --help\n", why.c_str());
  std::exit(topo::kMisused);
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "measure") == 0) return topo::measure(argc - 1, argv + 1);
  return run(parse(argc, argv));
}
