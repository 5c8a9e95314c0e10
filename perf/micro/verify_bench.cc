// How long the proof of a schedule takes. The aim: ring AllReduce over 512 ranks, one channel, in one second on
// one core. Arguments: ranks, channels. "moves" is the rate of moves of one tile that are proved.
#include <benchmark/benchmark.h>

#include "algorithms/library/algorithm.h"
#include "algorithms/verify/verify.h"
#include "program/text.h"

namespace eccl {
namespace {

std::vector<Program> programsOf(const algorithms::Algorithm& algorithm, const benchmark::State& state) {
  return algorithms::buildAll(algorithm, {algorithm.collective, static_cast<int>(state.range(0)), 0},
                              static_cast<int>(state.range(1)));
}

void verifies(benchmark::State& state, const algorithms::Algorithm* algorithm, bool inPlace) {
  const std::vector<Program> programs = programsOf(*algorithm, state);
  int64_t moves = 0;
  for (auto _ : state) {
    algorithms::Verdict verdict = algorithms::verify(programs, inPlace);
    if (!verdict.ok) state.SkipWithError(verdict.reason.c_str());
    moves += verdict.moves;
  }
  state.counters["moves"] = benchmark::Counter(static_cast<double>(moves), benchmark::Counter::kIsRate);
}

void parses(benchmark::State& state, const algorithms::Algorithm* algorithm) {
  const std::string text = dumpSchedule(programsOf(*algorithm, state));
  for (auto _ : state) {
    auto programs = parse(text);
    if (!programs.ok()) state.SkipWithError(programs.status().message().c_str());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

/// The ring at the sizes that matter; every algorithm at 64 ranks.
void registerAll() {
  const algorithms::Algorithm* ring = algorithms::findAlgorithm(Collective::allReduce, "ring");
  benchmark::RegisterBenchmark("verify/AllReduce/ring/in_place", verifies, ring, true)
      ->Args({512, 1})
      ->Args({64, 4})
      ->Args({64, 1})
      ->Args({8, 2})
      ->Unit(benchmark::kMillisecond);
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    std::string name = format("verify/%s/%s", nameOf(algorithm.collective), algorithm.name);
    benchmark::RegisterBenchmark(name.c_str(), verifies, &algorithm, false)
        ->Args({64, 4})
        ->Unit(benchmark::kMillisecond);
  }
  benchmark::RegisterBenchmark("parse/AllReduce/ring", parses, ring)
      ->Args({64, 4})
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace eccl

int main(int argc, char** argv) {
  eccl::registerAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
