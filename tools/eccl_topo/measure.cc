// eccl_topo measure: the links between running ranks, and the cost model that explains what calls take there.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>

#include "algorithms/cost/calibrate.h"
#include "algorithms/selection/candidates.h"
#include "base/settings.h"
#include "base/text_file.h"
#include "commands.h"
#include "measured_calls.h"
#include "measured_paths.h"
#include "runtime/api/handles.h"
#include "tools/common/command_line.h"
#include "tools/common/job.h"

namespace eccl::topo {
namespace {

using tools::Outcome;

constexpr char kMeasureUsage[] =
    "USAGE: eccl_topo measure [OPTIONS]\n"
    "Among the processes that mpirun, srun or torchrun have started, or local ones, it prints latency and\n"
    "bandwidth of every pair of ranks, measures collectives with every algorithm, and fits the constants of\n"
    "the cost model to them. With --paths it prints the paths that flows between hosts have (ECMP).\n";

struct MeasureOptions {
  int procs = 0, rounds = 3, sample = 4000, udp = 0;
  size_t most = size_t{64} << 20;
  std::string output, save, judge;
  std::vector<std::string> with;
  bool paths = false, check = false, plain = false, verbose = false, help = false;
};

std::vector<tools::CommandOption> tableFor(MeasureOptions* o) {
  using namespace tools;
  return {
      {0, "procs", "N", "starts N processes here", setNumber(&o->procs, 2, 1024)},
      {'o', "output", "FILE", "writes the model: ECCL_COST_FILE=FILE makes communicators choose by it",
       setText(&o->output)},
      {0, "save", "FILE", "writes what was measured: calls among one number of ranks", setText(&o->save)},
      {0, "with", "FILE", "fits the model to what was saved earlier too; may be repeated", addText(&o->with)},
      {0, "judge", "FILE", "fits nothing and says how far the model in FILE is off", setText(&o->judge)},
      {0, "paths", nullptr,
       "prints by which routers flows go from host to host, by source port, and measures nothing",
       setFlag(&o->paths)},
      {0, "udp", "PORT", "with --paths: flows of UDP to this port instead of TCP's; RoCE's is 4791",
       setNumber(&o->udp, 1, 65535)},
      {0, "check", nullptr, "also measures sizes that were not used, and says how far off the model is there",
       setFlag(&o->check)},
      {0, "max", "BYTES", "the largest buffer (64M)", setSize(&o->most, 4096)},
      {0, "rounds", "N", "measures everything N times, in new communicators, and takes the median (3)",
       setNumber(&o->rounds, 1, 1000)},
      {0, "sample", "US",
       "repeats a call for so many microseconds in each round, but three times at least (4000)",
       setNumber(&o->sample, 100, 100'000'000)},
      {0, "plain", nullptr, "ordinary memory instead of ecclMemAlloc's", setFlag(&o->plain)},
      {'v', "verbose", nullptr, "every call", setFlag(&o->verbose)},
      {'h', "help", nullptr, "this text", setFlag(&o->help)},
  };
}

MeasureOptions parseMeasure(int argc, char** argv) {
  MeasureOptions options;
  const auto table = tableFor(&options);
  const auto misused = [](const std::string& why) { tools::misused("eccl_topo measure", why); };
  const Outcome parsed = tools::parseCommandLine(argc, argv, table, nullptr);
  if (!parsed.ok()) misused(parsed.text());
  if (options.help) {
    std::printf("%s%s", kMeasureUsage, tools::helpText(table).c_str());
    std::exit(kFine);
  }
  if (options.paths && !(options.judge.empty() && options.with.empty() && options.output.empty() &&
                         options.save.empty() && !options.check))
    misused("--paths measures nothing: it goes without --output, --save, --with, --judge and --check");
  if (options.udp != 0 && !options.paths) misused("--udp goes with --paths");
  if (!options.judge.empty() && !(options.with.empty() && options.output.empty()))
    misused("--judge fits nothing: it goes without --with and --output");
  if (!options.judge.empty()) options.check = true;
  return options;
}

/// Every algorithm of every collective at sizes four times apart; with `between` also at those in the middle,
/// which the model is not fitted to. Algorithms for the same call stand together.
std::vector<MeasuredCall> callsToMeasure(const Placement& placement, size_t most, bool between) {
  std::vector<MeasuredCall> calls;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (algorithm.collective >= Collective::allToAllv || algorithm.collective == Collective::barrier) continue;
    if (!algorithms::fits(algorithm, placement)) continue;
    const algorithms::CollectiveShape shape{algorithm.collective, placement.ranks(), 0};
    const auto blocks = static_cast<size_t>(std::max(shape.input(0).number, shape.output(0).number));
    bool fitted = true;
    for (size_t bytes = 8; bytes * blocks <= most; bytes *= 2, fitted = !fitted)
      if (fitted || between) calls.push_back({&algorithm, bytes, fitted, {}});
  }
  std::stable_sort(calls.begin(), calls.end(), [](const MeasuredCall& a, const MeasuredCall& b) {
    return std::pair(a.algorithm->collective, a.blockBytes) < std::pair(b.algorithm->collective, b.blockBytes);
  });
  return calls;
}

class Measure {
 public:
  Measure(const MeasureOptions& options, tools::Place place) : options_(options), place_(place) {}

  Outcome run(ecclComm_t world) {
    Ranks ranks(world, place_.proc, place_.procs, options_.most, !options_.plain, options_.sample);
    TOOLS_TRY(readFiles());
    TOOLS_TRY(findPlacement(world));
    std::vector<MeasuredLink> links;
    TOOLS_TRY(ranks.links(&links));
    if (place_.proc == 0) print(links);
    beginWith(links);
    auto measured = callsToMeasure(placement_, options_.most, options_.check);
    for (int round = 0; round < options_.rounds; ++round) { TOOLS_TRY(ranks.round(&measured)); }
    if (place_.proc != 0) return {};
    std::vector<MeasuredCall> calls, others;
    for (const MeasuredCall& call : measured) (call.fitted ? calls : others).push_back(call);
    return conclude(calls, others);
  }

 private:
  /// Before anything is measured: a file that cannot be read is to be known at once.
  Outcome readFiles() {
    if (!options_.judge.empty()) {
      auto read = algorithms::CostModel::load(options_.judge);
      if (!read.ok()) return Outcome::error(tools::Exit::usage, "%s", read.status().message().c_str());
      judged_ = read.take();
    }
    for (const std::string& path : options_.with) {
      const auto text = readFile(path);
      if (!text.ok()) return Outcome::error(tools::Exit::usage, "--with %s", text.status().message().c_str());
      auto read = algorithms::parseMeasurements(*text, path);
      if (!read.ok()) return Outcome::error(tools::Exit::usage, "%s", read.status().message().c_str());
      earlier_.insert(earlier_.end(), read->begin(), read->end());
    }
    return {};
  }

  Outcome findPlacement(ecclComm_t world) {
    auto loaded = loadSettings();
    if (!loaded.ok()) return Outcome::error(tools::Exit::usage, "%s", loaded.status().message().c_str());
    settings_ = loaded.take();
    if (settings_.deterministic)
      return Outcome::error(
          tools::Exit::usage,
          "ECCL_DETERMINISTIC=1: choices depend on no measurement, and ranks of one host make "
          "theirs as ranks of as many hosts; unset it to measure");
    auto use = runtime::communicatorOf(world, "eccl_topo measure");
    if (!use.ok()) return Outcome::error(tools::Exit::internal, "%s", use.status().message().c_str());
    placement_ = (*use)->communicator->placement();
    return {};
  }

  void print(const std::vector<MeasuredLink>& links) const {
    std::printf("%-14s %12s %10s\n", "ranks", "microseconds", "GB/s");
    for (const MeasuredLink& link : links)
      std::printf("%5d - %-6d %12.2f %10.2f\n", link.from, link.to, link.microseconds, link.gigabytes);
  }

  /// The ports' constants are those of the best link: calls alone cannot tell a slow port from a slow core.
  void beginWith(const std::vector<MeasuredLink>& links) {
    double gigabytes = 0, microseconds = 0;
    for (const MeasuredLink& link : links) {
      const auto from = static_cast<size_t>(link.from), to = static_cast<size_t>(link.to);
      if (placement_.port[from] == placement_.port[to] || link.gigabytes <= gigabytes) continue;
      gigabytes = link.gigabytes;
      microseconds = link.microseconds;
    }
    if (gigabytes <= 0) return;
    start_[algorithms::CostTerm::portBytes] = 1e3 / gigabytes;
    const double inCores =
        start_[algorithms::CostTerm::networkSend] + start_[algorithms::CostTerm::networkReceive];
    start_[algorithms::CostTerm::networkLatency] = std::max(microseconds / 2, microseconds - inCores);
  }

  std::vector<algorithms::Measurement> measurementsOf(const std::vector<MeasuredCall>& calls) const {
    std::vector<algorithms::Measurement> measurements;
    for (const MeasuredCall& call : calls) {
      if (call.median() <= 0) continue;  // drowned in the barrier's noise
      algorithms::CallSize size;
      size.elements = call.blockBytes / sizeof(float);
      size.elementBytes = sizeof(float);
      size.slotBytes = algorithms::slotBytesFor(settings_.slotBytes, placement_);
      size.slots = static_cast<int>(settings_.slots);
      size.registered = !options_.plain && !settings_.p2pDisable;
      measurements.push_back({call.algorithm, size, placement_, call.median()});
    }
    return measurements;
  }

  Outcome conclude(const std::vector<MeasuredCall>& calls, const std::vector<MeasuredCall>& others) {
    if (!options_.save.empty())
      TOOLS_TRY(write(options_.save, "Calls measured by", algorithms::textOf(measurementsOf(calls))));
    if (judged_) {
      TOOLS_TRY(say("the model", calls, *judged_));
      TOOLS_TRY(say("the model at sizes between", others, *judged_));
      return choices(others, *judged_);
    }
    std::vector<algorithms::Measurement> all = measurementsOf(calls);
    all.insert(all.end(), earlier_.begin(), earlier_.end());
    auto fitted = algorithms::calibrate(all, start_);
    if (!fitted.ok()) return Outcome::error(tools::Exit::internal, "%s", fitted.status().message().c_str());
    const algorithms::CostModel& model = *fitted;
    for (int term = 0; term < algorithms::kCostTerms; ++term)
      std::printf("%-22s %10.3f\n", algorithms::nameOf(static_cast<algorithms::CostTerm>(term)).c_str(),
                  model.parameters().values[static_cast<size_t>(term)]);
    TOOLS_TRY(
        say("the constants explain what was measured", calls, algorithms::CostModel(model.parameters(), {})));
    if (options_.check) {
      TOOLS_TRY(say("the constants at other sizes", others, algorithms::CostModel(model.parameters(), {})));
      TOOLS_TRY(say("the model at other sizes", others, model));
      TOOLS_TRY(choices(others, model));
    }
    return options_.output.empty() ? Outcome() : write(options_.output, "Cost model by", model.text());
  }

  Outcome say(const char* what, const std::vector<MeasuredCall>& calls,
              const algorithms::CostModel& model) const {
    const auto accuracy = algorithms::accuracyOf(measurementsOf(calls), model);
    if (!accuracy.ok()) return Outcome::error(tools::Exit::internal, "%s", accuracy.status().message().c_str());
    std::printf("%s: off by %.1f %% (median), %.1f %% (95th percentile) in %zu calls\n", what,
                accuracy->median * 100, accuracy->percentile95 * 100, accuracy->calls);
    return {};
  }

  /// How often the algorithm that the model prefers is as good as the best: within 5 % or the spread.
  Outcome choices(const std::vector<MeasuredCall>& calls, const algorithms::CostModel& model) const {
    struct Candidate {
      const MeasuredCall* call;
      double predicted;
    };
    std::map<std::pair<Collective, size_t>, std::vector<Candidate>> groups;
    for (const MeasuredCall& call : calls) {
      const auto measurement = measurementsOf({call});
      if (measurement.empty()) continue;
      const auto predicted = algorithms::predict(measurement[0], model);
      if (!predicted.ok())
        return Outcome::error(tools::Exit::internal, "%s", predicted.status().message().c_str());
      groups[{call.algorithm->collective, call.blockBytes}].push_back({&call, *predicted});
      if (options_.verbose) {
        std::printf("%-14s %-10s %10zu %12.2f us, predicted %12.2f, %+.0f %%\n",
                    nameOf(call.algorithm->collective), call.algorithm->name, call.blockBytes, call.median(),
                    *predicted, (*predicted / call.median() - 1) * 100);
      }
    }
    int good = 0, all = 0;
    for (const auto& [key, candidates] : groups) {
      if (candidates.size() < 2) continue;
      const auto chosen =
          std::min_element(candidates.begin(), candidates.end(),
                           [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
      const auto best =
          std::min_element(candidates.begin(), candidates.end(),
                           [](const auto& a, const auto& b) { return a.call->median() < b.call->median(); });
      const double allowed = std::max({0.05, chosen->call->spread(), best->call->spread()});
      const bool fine = chosen->call->median() <= best->call->median() * (1 + allowed);
      ++all;
      good += fine;
      if (!fine) {
        std::printf("  %s, %zu bytes: %s is chosen and takes %.2f us, %s takes %.2f\n", nameOf(key.first),
                    key.second, chosen->call->algorithm->name, chosen->call->median(),
                    best->call->algorithm->name, best->call->median());
      }
    }
    std::printf("the algorithm chosen is as good as the best, to 5 %% or the spread, in %d of %d cases\n", good,
                all);
    return {};
  }

  Outcome write(const std::string& path, const char* what, const std::string& text) const {
    char date[32];
    const std::time_t time = std::time(nullptr);
    std::strftime(date, sizeof date, "%F", std::gmtime(&time));
    const std::string head =
        format("# %s eccl_topo measure, ECCL %d.%d.%d, %s: %d ranks, %s\n", what, ECCL_MAJOR, ECCL_MINOR,
               ECCL_PATCH, date, place_.procs, options_.plain ? "ordinary memory" : "memory of ecclMemAlloc");
    const Status written = writeTextFile(path, head + text, "the file");
    return written.ok() ? Outcome() : Outcome::error(tools::Exit::system, "%s", written.message().c_str());
  }

  const MeasureOptions& options_;
  const tools::Place place_;
  std::optional<algorithms::CostModel> judged_;
  std::vector<algorithms::Measurement> earlier_;  // by --with
  algorithms::CostParameters start_ = algorithms::CostParameters::defaults();
  Settings settings_;
  Placement placement_;
};

Outcome measureIn(const MeasureOptions& options, const tools::Place& place, tools::Fork& fork) {
  if (place.procs < 2)
    return Outcome::error(tools::Exit::usage,
                          "measure needs ranks: --procs N, or a launcher that starts several");
  ecclUniqueId id;
  TOOLS_TRY(fork.rendezvous->id(&id));
  ecclComm_t world = nullptr;
  TOOLS_TRY(
      Outcome::library(ecclCommInitRank(&world, place.procs, id, place.proc), nullptr, "ecclCommInitRank"));
  fork.rendezvous->joined();
  TOOLS_TRY(options.paths ? printPaths(world, place.proc, place.procs, static_cast<uint16_t>(options.udp))
                          : Measure(options, place).run(world));
  return Outcome::library(ecclCommDestroy(world), nullptr, "ecclCommDestroy");
}

}  // namespace

int measure(int argc, char** argv) {
  const MeasureOptions options = parseMeasure(argc, argv);
  tools::Place place;
  tools::Fork fork;
  Outcome outcome = tools::takePlace(options.procs, 1, 1, &place, &fork);
  if (outcome.ok() && fork.exitCode) return *fork.exitCode;
  if (outcome.ok()) outcome = measureIn(options, place, fork);
  if (outcome.ok()) return kFine;
  std::fprintf(stderr, "eccl_topo: %s\n", outcome.text().c_str());
  return outcome.code() == tools::Exit::usage ? kMisused : kUnreadable;
}

}  // namespace eccl::topo
