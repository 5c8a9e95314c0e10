#include "explain.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/selection/candidates.h"
#include "algorithms/selection/selection_rules.h"
#include "base/settings.h"
#include "runtime/calibration/machine_model.h"
#include "runtime/init/cluster_exchange.h"
#include "runtime/init/local_host.h"
#include "tools/common/command_line.h"
#include "topology/model/locations.h"
#include "transport/registry/registry.h"

namespace eccl::sched {
namespace {

constexpr char kExplainUsage[] = "USAGE: eccl_sched explain -c NAME -n N -b BYTES [OPTIONS]\n";
constexpr char kNotes[] =
    "Settings count as for a communicator: ECCL_TOPO_FILE, of which each host is one, ECCL_COST_FILE,\n"
    "ECCL_TABLE_FILE, ECCL_ALGO, ECCL_CHANNELS, ECCL_SLOTS and ECCL_SLOT_BYTES. Times among more than 16 "
    "ranks\n"
    "are estimated from those of 4, 8 and 16 of them.\n"
    "It exits with 0, with 2 if it is used wrongly, 3 if a setting or a file is wrong.\n";

struct Options {
  std::string collective, cost;
  int ranks = 0, hosts = 1, cores = 0;
  size_t bytes = 0;
  bool plain = false, help = false;
};

[[noreturn]] void misused(const std::string& why) {
  tools::misused("eccl_sched explain", why);
}

std::vector<tools::CommandOption> tableFor(Options* o) {
  using namespace tools;
  constexpr int kMaxRanks = 65536;
  return {
      {'c', "collective", "NAME", "AllReduce, AllGather, ...", setText(&o->collective)},
      {'n', "ranks", "N", "", setNumber(&o->ranks, 1, kMaxRanks)},
      {'b', "bytes", "BYTES",
       "the size of a block: the vector of AllReduce, Broadcast and Reduce, one rank's part of AllGather and "
       "ReduceScatter, one message of AlltoAll",
       setSize(&o->bytes, 1)},
      {0, "hosts", "H", "the ranks are on H hosts, in blocks of N/H (1)", setNumber(&o->hosts, 1, kMaxRanks)},
      {0, "cores", "C", "the cores that a host's ranks share (one for each rank, or ECCL_TOPO_FILE's)",
       setNumber(&o->cores, 1, 4096)},
      {0, "cost", "FILE",
       "the cost model, as eccl_topo measure writes it, instead of that of ECCL_COST_FILE; without any, the "
       "speeds that eccl_topo speeds shows, else constants of another machine",
       setText(&o->cost)},
      {0, "plain", nullptr, "ordinary memory instead of ecclMemAlloc's", setFlag(&o->plain)},
      {'h', "help", nullptr, "this text", setFlag(&o->help)},
  };
}

Options parse(int argc, char** argv) {
  Options options;
  const auto table = tableFor(&options);
  const tools::Outcome parsed = tools::parseCommandLine(argc, argv, table, nullptr);
  if (!parsed.ok()) misused(parsed.text());
  if (options.help) {
    std::printf("%s%s%s", kExplainUsage, tools::helpText(table).c_str(), kNotes);
    std::exit(0);
  }
  if (options.collective.empty() || options.ranks == 0 || options.bytes == 0)
    misused("--collective, --ranks and --bytes are needed");
  if (options.ranks % options.hosts != 0)
    misused(format("%d ranks are no equal number on each of %d hosts", options.ranks, options.hosts));
  return options;
}

Collective collectiveOf(const Options& options) {
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (strcasecmp(options.collective.c_str(), nameOf(algorithm.collective)) == 0 &&
        algorithm.collective < Collective::allToAllv)
      return algorithm.collective;
  }
  misused(format("--collective %s is none that is priced: those of eccl_sched list but the v calls and Barrier",
                 options.collective.c_str()));
}

Result<std::vector<RankLocation>> locationsFor(const Options& options, const Settings& settings) {
  const int each = options.ranks / options.hosts;
  std::vector<RankLocation> locations;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const std::string host = std::to_string(rank / each);
    locations.emplace_back(host, host, host, each);
  }
  if (!settings.topoFile.empty()) {
    topology::Cluster cluster;
    ECCL_ASSIGN(const auto host, runtime::localHost(settings));
    const std::vector<int> devices = topology::participantsOf(host->host);
    cluster.types = {host->host};
    for (int h = 0; h < options.hosts; ++h) cluster.hosts.push_back({format("host%d", h), 0, {}});
    for (int rank = 0; rank < options.ranks; ++rank)
      cluster.ranks.push_back({rank / each, devices[static_cast<size_t>(rank % each) % devices.size()]});
    locations = topology::locationsOf(cluster);
  }
  ECCL_TRY(transport::chooseTransports(settings).status());
  for (RankLocation& location : locations) {
    location.ucx = runtime::usesUcx(settings);
    if (options.cores > 0) location.cores = options.cores;
  }
  return locations;
}

/// What the critical path spends its time with.
struct Part {
  const char* name;
  double microseconds;
};
std::array<Part, 4> partsOf(const algorithms::CostAmounts& amounts,
                            const algorithms::CostParameters& parameters) {
  std::array<Part, 4> parts = {
      {{"calls and moves", 0}, {"waiting for others", 0}, {"memory", 0}, {"network", 0}}};
  for (int term = 0; term < algorithms::kCostTerms; ++term) {
    const auto which = static_cast<algorithms::CostTerm>(term);
    const bool moves = which <= algorithms::CostTerm::fastMove, waits = which <= algorithms::CostTerm::handOver;
    const bool network =
        which >= algorithms::CostTerm::networkLatency && which <= algorithms::CostTerm::portBytes;
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
std::string wordsFor(const algorithms::Choice& choice) {
  std::string text = choice.algorithm->name;
  if (choice.channels > 1) text += format(" on %d channels", choice.channels);
  if (choice.tile > 0)
    text += format(" in messages of up to %llu bytes", static_cast<unsigned long long>(choice.tile));
  return text;
}

/// What a communicator of these ranks would have by its settings, and what the choice is by, in words.
struct Chooser {
  algorithms::CostModel model;
  algorithms::CallSize size;
  algorithms::SelectionTable table;
  std::string by;
};

Result<Chooser> chooserFor(const Options& options, const Settings& settings, Collective collective,
                           const Placement& placement) {
  Chooser chooser;
  Settings asked = settings;
  if (!options.cost.empty()) asked.costFile = options.cost;
  ECCL_ASSIGN(runtime::MachineModel machine, runtime::keptModel(asked));
  chooser.model = std::move(machine.model);
  chooser.by = machine.file.empty() ? "the default cost model" : machine.file;
  chooser.size.elementBytes = options.bytes % 4 == 0 ? 4 : 1;
  chooser.size.elements = options.bytes / chooser.size.elementBytes;
  chooser.size.slotBytes = algorithms::slotBytesFor(settings.slotBytes, placement);
  chooser.size.slots = static_cast<int>(settings.slots);
  chooser.size.registered = !options.plain;
  ECCL_ASSIGN(chooser.table, algorithms::parseSelection(settings.algo));
  chooser.table.channels = static_cast<int>(settings.channels);
  ECCL_ASSIGN(chooser.table.rules, algorithms::rulesFor(placement, chooser.model, chooser.size));
  bool named = false;
  if (!settings.tableFile.empty()) {
    ECCL_ASSIGN(auto rules, algorithms::loadRules(settings.tableFile));
    named = std::any_of(rules.begin(), rules.end(),
                        [&](const auto& rule) { return rule.collective == collective; });
    chooser.table.rules = algorithms::overridden(std::move(chooser.table.rules), std::move(rules));
  }
  if (chooser.table.forced[static_cast<size_t>(collective)] != nullptr)
    chooser.by = "ECCL_ALGO; times by " + chooser.by;
  else if (named)
    chooser.by = settings.tableFile + "; times by " + chooser.by;
  return chooser;
}

Status show(const Options& options) {
  const Collective collective = collectiveOf(options);
  ECCL_ASSIGN(const Settings settings, loadSettings());
  ECCL_ASSIGN(const std::vector<RankLocation> locations, locationsFor(options, settings));
  const Placement placement(locations);
  ECCL_ASSIGN(const Chooser chooser, chooserFor(options, settings, collective, placement));
  const algorithms::Choice choice = algorithms::select(collective, options.bytes, options.ranks, chooser.table);

  std::vector<algorithms::Candidate> candidates;
  auto add = [&](const algorithms::Choice& other) -> Status {
    ECCL_ASSIGN(const double time, algorithms::estimatedTimeOf(other, chooser.size, placement, chooser.model));
    candidates.push_back({other, time});
    return {};
  };
  ECCL_TRY(add(choice));
  const double chosen = candidates[0].microseconds;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms())
    if (algorithm.collective == collective && choice != algorithms::Choice{&algorithm} &&
        algorithms::fits(algorithm, placement))
      ECCL_TRY(add({&algorithm}));
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const algorithms::Candidate& a, const algorithms::Candidate& b) {
                     return a.microseconds < b.microseconds;
                   });
  std::printf("%s of %zu bytes among %d ranks on %d host%s takes %s, by %s\n", nameOf(collective),
              options.bytes, options.ranks, options.hosts, options.hosts == 1 ? "" : "s",
              wordsFor(choice).c_str(), chooser.by.c_str());
  if (!settings.topoFile.empty())
    std::printf("hosts are those of %s; rank 0 is on %s\n", settings.topoFile.c_str(),
                locations[0].text().c_str());
  const bool estimated = options.ranks > algorithms::kPricedRanks;
  if (estimated)
    std::printf(
        "estimated by how the times of 4, 8 and %d of the ranks grow; the critical path is that among %d\n",
        algorithms::kPricedRanks, algorithms::kPricedRanks);
  const Placement priced = estimated ? algorithms::someOf(placement, algorithms::kPricedRanks) : placement;
  std::printf("%-12s %14s %8s  the critical path\n", "", "microseconds", "");
  for (const auto& [other, microseconds] : candidates) {
    const auto programs =
        algorithms::buildAll(*other.algorithm, {collective, priced.ranks(), 0}, priced, other.channels);
    ECCL_ASSIGN(const algorithms::CostAmounts amounts,
                algorithms::simulatedAmounts(programs, algorithms::sizeFor(other, chooser.size, priced), priced,
                                             chooser.model.parameters()));
    const bool many = algorithms::neighboursOf(*other.algorithm, placement) > algorithms::kMaxNeighbours;
    std::printf("%-12s %14.2f %7.2fx  %s%s%s\n", other.algorithm->name, microseconds, microseconds / chosen,
                reasonFor(partsOf(amounts, chooser.model.parameters())).c_str(),
                many ? format("; a rank has more than %d neighbours", algorithms::kMaxNeighbours).c_str() : "",
                other == choice ? "; chosen" : "");
  }
  return {};
}

}  // namespace

int explain(int argc, char** argv) {
  const Status shown = show(parse(argc, argv));
  if (shown.ok()) return 0;
  std::fprintf(stderr, "eccl_sched: %s\n", shown.message().c_str());
  return shown.code() == Code::internal ? 1 : 3;
}

}  // namespace eccl::sched
