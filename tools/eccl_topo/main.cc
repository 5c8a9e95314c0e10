// eccl_topo: what a machine is made of, how its parts are connected, and what should be repaired.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "commands.h"

namespace {

using namespace eccl;
using topo::Options;

constexpr char kUsage[] =
    "USAGE: eccl_topo COMMAND [OPTIONS]\n"
    "  show          the machine as a tree, with bandwidths\n"
    "  check         what an operator should repair, with evidence, consequence and remedy\n"
    "  paths         the way between any two accelerators, adapters and CPUs: type and GB/s\n"
    "  search        trees and rings for collectives on this machine, and how near the bound they are\n"
    "  draw          the machine as a picture (SVG)\n"
    "  dump          the machine as a file: --format xml (NCCL's) or json (docs/topology.schema.json)\n"
    "  diff A B      what differs between two files\n"
    "  measure       latency, bandwidth and the cost model among running ranks: eccl_topo measure --help\n"
    "The machine is this one, or\n"
    "  -f, --file FILE     one in a file of NCCL's XML (NCCL_TOPO_DUMP_FILE makes them) or of dump's JSON\n"
    "      --root DIR      a captured one: a folder with its /proc and /sys\n"
    "Of all commands but draw and dump:\n"
    "      --json          for programs\n"
    "Of draw and dump:\n"
    "  -o, --output FILE   instead of the standard output\n"
    "Of search:\n"
    "      --channels N    at most so many (32)\n"
    "  -h, --help\n"
    "It exits with 0 if all is well, 1 if check found something to repair or diff a difference, 2 if it is "
    "used wrongly,\n"
    "3 if a file cannot be read.\n";

Options parse(int argc, char** argv) {
  enum { kRoot = 256, kFormat, kJson, kChannels };
  static const option kOptions[] = {{"file", required_argument, nullptr, 'f'},
                                    {"root", required_argument, nullptr, kRoot},
                                    {"format", required_argument, nullptr, kFormat},
                                    {"output", required_argument, nullptr, 'o'},
                                    {"json", no_argument, nullptr, kJson},
                                    {"channels", required_argument, nullptr, kChannels},
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
      case kChannels: {
        char* end = nullptr;
        options.channels = static_cast<int>(std::strtol(optarg, &end, 10));
        if (*end != '\0' || options.channels < 1 || options.channels > 1024)
          topo::misused(format("--channels %s is not a number from 1 to 1024", optarg));
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
    topo::misused("\"" + words[1] + "\": one command, and the machine by --file or --root");
  }
  if (!options.file.empty() && !options.root.empty()) topo::misused("--file or --root, not both");
  if (options.format != "xml" && options.format != "json") topo::misused("--format is xml or json");
  return options;
}

int run(const Options& options) {
  Result<Host> host = topo::readHost(options);
  if (!host.ok()) {
    std::fprintf(stderr, "eccl_topo: %s\n", host.status().message().c_str());
    return topo::kUnreadable;
  }
  if (options.command == "show") return topo::show(*host, options);
  if (options.command == "dump") return topo::dump(*host, options);
  if (options.command == "draw") return topo::draw(*host, options);
  if (options.command == "paths") return topo::paths(*host, options);
  if (options.command == "search") return topo::search(*host, options);
  if (options.command == "check") return topo::check(*host, options);
  if (options.command != "diff") topo::misused("there is no command \"" + options.command + "\"");
  Result<Host> other = topo::loadHost(options.other);
  if (other.ok()) return topo::diff(*host, *other, options);
  std::fprintf(stderr, "eccl_topo: %s\n", other.status().message().c_str());
  return topo::kUnreadable;
}

}  // namespace

void eccl::topo::misused(const std::string& why) {
  std::fprintf(stderr, "eccl_topo: %s; see eccl_topo --help\n", why.c_str());
  std::exit(kMisused);
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "measure") == 0) return topo::measure(argc - 1, argv + 1);
  return run(parse(argc, argv));
}
