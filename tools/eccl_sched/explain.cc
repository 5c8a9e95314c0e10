#include "explain.h"

#include <getopt.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/selection_rules.h"
#include "common/number.h"

namespace eccl::sched {
namespace {

constexpr char kUsage[] =
    "USAGE: eccl_sched explain -c NAME -n N -b BYTES [OPTIONS]\n"
    "  -c, --collective NAME   AllReduce, AllGather, ...\n"
    "  -n, --ranks N\n"
    "  -b, --bytes BYTES       of a block: the vector of AllReduce, Broadcast and Reduce, one rank's part of\n"
    "                          AllGather and ReduceScatter, one message of AlltoAll\n"
    "      --hosts H           the ranks are on H hosts, in blocks of N/H (1)\n"
    "      --cores C           that a host's ranks share (as many as ranks)\n"
    "      --cost FILE         the cost model, as eccl_topo measure writes it; without it constants that are "
    "not\n"
    "                          this machine's\n"
    "      --plain             ordinary memory instead of ecclMemAlloc's\n"
    "  -h, --help\n"
    "It exits with 0, with 2 if it is used wrongly, 3 if the file cannot be read.\n";

struct Options {
  const char* collective = nullptr;
  std::string cost;
  int ranks = 0, hosts = 1, cores = 0;
  size_t bytes = 0;
  bool plain = false;
};

[[noreturn]] void misused(const std::string& why) {
  std::fprintf(stderr, "eccl_sched: %s; see eccl_sched explain --help\n", why.c_str());
  std::exit(2);
}

Options parse(int argc, char** argv) {
  enum { kHosts = 256, kCores, kCost, kPlain };
  static const option kOptions[] = {{"collective", required_argument, nullptr, 'c'},
                                    {"ranks", required_argument, nullptr, 'n'},
                                    {"bytes", required_argument, nullptr, 'b'},
                                    {"hosts", required_argument, nullptr, kHosts},
                                    {"cores", required_argument, nullptr, kCores},
                                    {"cost", required_argument, nullptr, kCost},
                                    {"plain", no_argument, nullptr, kPlain},
                                    {"help", no_argument, nullptr, 'h'},
                                    {}};
  Options options;
  auto number = [](const char* name, int most) {
    long long value = 0;
    if (!perf::parseInteger(optarg, 1, most, &value))
      misused(format("%s %s is not a number from 1 to %d", name, optarg, most));
    return static_cast<int>(value);
  };
  for (int found; (found = getopt_long(argc, argv, "c:n:b:h", kOptions, nullptr)) != -1;) {
    switch (found) {
      case 'c':
        options.collective = optarg;
        break;
      case 'n':
        options.ranks = number("--ranks", 1024);
        break;
      case 'b':
        if (!perf::parseSize(optarg, &options.bytes) || options.bytes == 0)
          misused(format("--bytes %s is no size", optarg));
        break;
      case kHosts:
        options.hosts = number("--hosts", 1024);
        break;
      case kCores:
        options.cores = number("--cores", 4096);
        break;
      case kCost:
        options.cost = optarg;
        break;
      case kPlain:
        options.plain = true;
        break;
      case 'h':
        std::fputs(kUsage, stdout);
        std::exit(0);
      default:
        std::exit(2);
    }
  }
  if (optind < argc) misused(format("'%s' is one argument too many", argv[optind]));
  if (options.collective == nullptr || options.ranks == 0 || options.bytes == 0)
    misused("--collective, --ranks and --bytes are needed");
  if (options.ranks % options.hosts != 0)
    misused(format("%d ranks are no equal number on each of %d hosts", options.ranks, options.hosts));
  return options;
}

Collective collectiveOf(const Options& options) {
  for (const Algorithm& algorithm : algorithms()) {
    if (strcasecmp(options.collective, nameOf(algorithm.collective)) == 0 &&
        algorithm.collective < Collective::allToAllv)
      return algorithm.collective;
  }
  misused(format("--collective %s is none that is priced: those of eccl_sched list but the v calls and Barrier",
                 options.collective));
}

Placement placementOf(const Options& options) {
  const int each = options.ranks / options.hosts;
  std::vector<Seat> seats;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const std::string host = std::to_string(rank / each);
    seats.push_back({host, host, host, static_cast<double>(options.cores > 0 ? options.cores : each)});
  }
  return Placement(seats);
}

/// What the longest chain of moves spends its time with.
struct Part {
  const char* name;
  double microseconds;
};
std::array<Part, 4> partsOf(const CostAmounts& amounts, const CostParameters& parameters) {
  std::array<Part, 4> parts = {
      {{"calls and moves", 0}, {"waiting for others", 0}, {"memory", 0}, {"network", 0}}};
  for (int term = 0; term < kCostTerms; ++term) {
    const auto which = static_cast<CostTerm>(term);
    const bool moves = which <= CostTerm::shortMove, waits = which <= CostTerm::handOver;
    const bool network = which >= CostTerm::networkLatency && which <= CostTerm::portBytes;
    parts[moves     ? 0
          : waits   ? 1
          : network ? 3
                    : 2]
        .microseconds += amounts[static_cast<size_t>(term)] * parameters[which];
  }
  return parts;
}

/// "memory 61 %, calls and moves 39 %".
std::string reasonFor(const std::array<Part, 4>& parts) {
  double all = 0;
  for (const Part& part : parts) all += part.microseconds;
  std::vector<Part> sorted(parts.begin(), parts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Part& a, const Part& b) { return a.microseconds > b.microseconds; });
  std::string text;
  for (const Part& part : sorted) {
    const double share = all > 0 ? part.microseconds / all * 100 : 0;
    if (share >= 1) text += format("%s%s %.0f %%", text.empty() ? "" : ", ", part.name, share);
  }
  return text;
}

/// "chain on 2 channels in messages of up to 16384 bytes".
std::string wordsFor(const Choice& choice) {
  std::string text = choice.algorithm->name;
  if (choice.channels > 1) text += format(" on %d channels", choice.channels);
  if (choice.tile > 0)
    text += format(" in messages of up to %llu bytes", static_cast<unsigned long long>(choice.tile));
  return text;
}

Status show(const Options& options, const CostModel& model) {
  const Collective collective = collectiveOf(options);
  const Placement placement = placementOf(options);
  CallSize size;
  size.elementBytes = options.bytes % 4 == 0 ? 4 : 1;
  size.elements = options.bytes / size.elementBytes;
  size.registered = !options.plain;
  SelectionTable table;
  ECCL_ASSIGN(table.rules, rulesFor(placement, model, size));
  const Choice choice = select(collective, options.bytes, options.ranks, table);

  std::vector<Candidate> candidates;
  auto add = [&](const Choice& other) -> Status {
    ECCL_ASSIGN(const double time, timeOf(other, size, placement, model));
    candidates.push_back({other, time});
    return {};
  };
  ECCL_TRY(add(choice));
  const double chosen = candidates[0].microseconds;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.collective == collective && choice != Choice{&algorithm}) ECCL_TRY(add({&algorithm}));
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.microseconds < b.microseconds; });
  std::printf("%s of %zu bytes among %d ranks on %d host%s takes %s, by %s\n", nameOf(collective),
              options.bytes, options.ranks, options.hosts, options.hosts == 1 ? "" : "s",
              wordsFor(choice).c_str(), options.cost.empty() ? "the default cost model" : options.cost.c_str());
  std::printf("%-12s %14s %8s  the longest chain of moves\n", "", "microseconds", "");
  for (const auto& [other, microseconds] : candidates) {
    const auto programs = buildAll(*other.algorithm, {collective, options.ranks, 0}, other.channels);
    ECCL_ASSIGN(const CostAmounts amounts,
                simulatedAmounts(programs, sizeFor(other, size), placement, model.parameters()));
    std::printf("%-12s %14.2f %7.2fx  %s%s\n", other.algorithm->name, microseconds, microseconds / chosen,
                reasonFor(partsOf(amounts, model.parameters())).c_str(), other == choice ? "; chosen" : "");
  }
  return {};
}

}  // namespace

int explain(int argc, char** argv) {
  const Options options = parse(argc, argv);
  CostModel model;
  if (!options.cost.empty()) {
    auto read = CostModel::load(options.cost);
    if (!read.ok()) {
      std::fprintf(stderr, "eccl_sched: %s\n", read.status().message().c_str());
      return 3;
    }
    model = read.take();
  }
  const Status shown = show(options, model);
  if (shown.ok()) return 0;
  std::fprintf(stderr, "eccl_sched: %s\n", shown.message().c_str());
  return 1;
}

}  // namespace eccl::sched
