#include "common/report.h"

#include <cinttypes>
#include <ctime>

#include "common/number.h"

namespace eccl::perf {
namespace {
constexpr char kTimeFormat[] = "%Y-%m-%d %H:%M:%S";
constexpr int kTimeColumn = 19;  // characters of a time of day
constexpr int kJsonVersion = 3;

// The value of a secret must not end up in a results file.
std::string withoutSecret(const std::string& variable) {
  static constexpr const char* secrets[] = {"ECCL_COMM_SECRET=", "NCCL_COMM_SECRET="};
  for (const std::string secret : secrets)
    if (variable.rfind(secret, 0) == 0) return secret + "<not shown>";
  return variable;
}
}  // namespace

std::string timeOfDay() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof text, kTimeFormat, &parts);
  return text;
}

// The document's object stays open until finish(); keys come in nccl-tests' order.
void Report::beginDocument(int argc, char** argv, char** environment, int libraryVersion) {
  if (json_ == nullptr) return;
  json_->beginObject();
  json_->key("version").integer(kJsonVersion);
  json_->key("start_time").string(timeOfDay());
  json_->key("args").beginList();
  for (int i = 0; i < argc; ++i) json_->string(argv[i]);
  json_->end();
  json_->key("env").beginList();
  for (char** variable = environment; *variable != nullptr; ++variable) json_->string(withoutSecret(*variable));
  json_->end();
  // The key is nccl-tests'; the number is that of the library that was measured, which is ECCL.
  json_->key("nccl_version").integer(libraryVersion);
  json_->key("library").string("eccl");
}

// Spaces before line ends are nccl-tests' own; scripts that compare lines see no difference.
void Report::banner(const char* program, int headerVersion, int libraryVersion) {
  const Options& o = options_;
  std::fprintf(out_, "# eccl-tests version %d.%d.%d eccl-headers=%d eccl-library=%d\n", headerVersion / 10000,
               headerVersion / 100 % 100, headerVersion % 100, headerVersion, libraryVersion);
  std::fprintf(out_, "# Collective test starting: %s\n", program);
  const bool factor = o.stepFactor > 1;
  std::fprintf(
      out_,
      "# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: %d "
      "validation: %d graph: %d unalign: %zu\n",
      o.threads, o.ranksPerThread, o.minBytes, o.maxBytes, factor ? o.stepFactor : o.stepBytes,
      factor ? "factor" : "bytes", o.warmup, o.iterations, o.aggregate, o.check, 0, o.unalign);
  static constexpr const char* blocking[] = {
      "", "wait and barrier after each inner iteration (-m)",
      "wait after each inner iteration (-m), no barrier",
      "wait and barrier after each outer iteration (-n); time excludes barrier"};
  if (o.blocking != 0) std::fprintf(out_, "# Blocking Enabled: %s \n", blocking[o.blocking]);
  if (o.perIteration) {
    std::fprintf(out_,
                 "# Per-Iteration Report: host clock, stream drained after each iteration; i_* uses max over "
                 "process rows");
    if (o.perIterationSkip > 0) std::fprintf(out_, "; summary skips first %d iterations", o.perIterationSkip);
    std::fprintf(out_, " \n");
  }
  if (o.consistency > 0)
    std::fprintf(out_,
                 "# Consistency Report: median of %d runs of each size; slowest and fastest relative to it \n",
                 o.consistency);
  if (o.parallelInit)
    std::fprintf(out_, "# Parallel Init Enabled: threads call into ecclCommInitRank concurrently \n");
  for (const std::string& note : o.notes) std::fprintf(out_, "# %s\n", note.c_str());
  std::fprintf(out_, "#\n");
}

void Report::configuration() {
  const Options& o = options_;
  json_->key("nthreads").integer(o.threads);
  json_->key("ngpus").integer(o.ranksPerThread);
  json_->key("minimum_bytes").integer(static_cast<int64_t>(o.minBytes));
  json_->key("maximum_bytes").integer(static_cast<int64_t>(o.maxBytes));
  if (o.stepFactor > 1)
    json_->key("step_factor").integer(static_cast<int64_t>(o.stepFactor));
  else
    json_->key("step_bytes").integer(static_cast<int64_t>(o.stepBytes));
  json_->key("warmup_iters").integer(o.warmup);
  json_->key("iterations").integer(o.iterations);
  json_->key("aggregated_iterations").integer(o.aggregate);
  json_->key("validation").integer(o.check);
  json_->key("graph").integer(0);
  json_->key("blocking_collectives").truth(o.blocking != 0);
  json_->key("per_iter_timing").truth(o.perIteration);
  json_->key("per_iter_skip").integer(o.perIterationSkip);
  json_->key("parallel_init").truth(o.parallelInit);
}

void Report::devices(const std::vector<DeviceLine>& lines) {
  std::fprintf(out_, "# Using devices\n");
  for (const DeviceLine& line : lines)
    std::fprintf(out_, "#  Rank %2d Group %2d Pid %6d on %10s device %2d [%s] %s\n", line.rank, line.group,
                 line.pid, line.host.c_str(), line.device, line.pci.c_str(), line.info.c_str());
  if (json_ == nullptr) return;
  json_->key("config").beginObject();
  configuration();
  json_->key("devices").beginList();
  for (const DeviceLine& line : lines) {
    json_->beginObject();
    json_->key("rank").integer(line.rank);
    json_->key("group").integer(line.group);
    json_->key("pid").integer(line.pid);
    json_->key("hostname").string(line.host);
    json_->key("device").integer(line.device);
    json_->key("device_hex").string(line.pci);
    json_->key("device_info").string(line.info);
    json_->end();
  }
  json_->end();
  json_->end();
}

void Report::init(double seconds, int ranks) {
  std::fprintf(out_, "# Init: %d ranks joined in %.3f s\n", ranks, seconds);
}

void Report::remark(const std::string& sentence) {
  std::fprintf(out_, "#\n# %s\n", sentence.c_str());
}

// Three lines whose columns stand over those of a row. The last field is the timestamp's, empty without -S.
void Report::tableHeader() {
  const char* time = options_.cpuTime ? "cputime" : "time";
  const int stampWidth = options_.timestamps ? kTimeColumn : 0;
  const auto line = [&](const char* const left[5], const char* const half[10], const char* stamp) {
    std::fprintf(out_, "# %10s  %12s  %8s  %6s  %6s", left[0], left[1], left[2], left[3], left[4]);
    for (int placement = 0; placement < 2; ++placement) {
      std::fprintf(out_, "  %7s  %6s  %6s  %6s", half[0], half[1], half[2], half[3]);
      if (options_.perIteration) std::fprintf(out_, "  %7s  %7s  %7s  %7s", half[4], half[5], half[6], half[7]);
      if (options_.consistency > 0) std::fprintf(out_, "  %7s  %7s", half[8], half[9]);
    }
    std::fprintf(out_, " %*s\n", stampWidth, options_.timestamps ? stamp : "");
  };
  std::fprintf(out_, "#\n");
  std::fprintf(
      out_, "# %10s  %12s  %8s  %6s  %6s%s\n", "", "", "", "", "",
      options_.perIteration ? "              out-of-place (+ per-iteration)                           "
                              "     in-place (+ per-iteration)"
      : options_.consistency > 0
          ? "           out-of-place (+ consistency)                            in-place (+ consistency)"
          : "           out-of-place                       in-place          ");
  static constexpr const char* names[5] = {"size", "count", "type", "redop", "root"};
  const char* const columns[10] = {time,    "algbw", "busbw", "#wrong",  "i_min",
                                   "i_max", "i_p99", "i_cv%", "max/med", "min/med"};
  line(names, columns, "timestamp");
  static constexpr const char* units[5] = {"(B)", "(elements)", "", "", ""};
  static constexpr const char* columnUnits[10] = {"(us)", "(GB/s)", "(GB/s)", "", "(us)",
                                                  "(us)", "(us)",   "(%)",    "", ""};
  line(units, columnUnits, kTimeFormat);
  if (json_ != nullptr) json_->key("results").beginList();
}

void Report::beginRow(size_t bytes, size_t count, const char* type, const char* op, int root) {
  std::fprintf(out_, "%12zu  %12zu  %8s  %6s  %6d", bytes, count, type, op, root);
  rowOpen_ = true;
  if (json_ == nullptr) return;
  json_->beginObject();
  json_->key("size").integer(static_cast<int64_t>(bytes));
  json_->key("count").integer(static_cast<int64_t>(count));
  json_->key("type").string(type);
  json_->key("redop").string(op);
  json_->key("root").string(formatted("%6d", root));
}

void Report::timestamp() {
  std::fprintf(out_, "%21s", timeOfDay().c_str());
}

void Report::measurement(const Measurement& m, bool inPlace) {
  std::fprintf(out_, "  %7s  %6s  %6s", fitted(m.microseconds, 7).c_str(), fitted(m.algbw, 6).c_str(),
               fitted(m.busbw, 6).c_str());
  // N/A stands one column further left than a number; that is how nccl-tests prints it.
  if (m.checked)
    std::fprintf(out_, "  %6g", static_cast<double>(m.wrong));
  else
    std::fprintf(out_, "    N/A");
  if (options_.consistency > 0)
    std::fprintf(out_, "  %7s  %7s", fittedRatio(m.slowest, 7).c_str(), fittedRatio(m.fastest, 7).c_str());
  if (inPlace && options_.timestamps && !options_.perIteration) timestamp();
  if (json_ == nullptr) return;
  json_->key(inPlace ? "in_place" : "out_of_place").beginObject();
  json_->key(options_.cpuTime ? "cpu_time" : "time").real(m.microseconds);
  json_->key("alg_bw").real(m.algbw);
  json_->key("bus_bw").real(m.busbw);
  json_->key("nwrong");
  if (m.checked)
    json_->real(static_cast<double>(m.wrong));
  else
    json_->null();
  if (options_.consistency > 0) {
    json_->key("slowest_to_median").real(m.slowest);
    json_->key("fastest_to_median").real(m.fastest);
  }
  json_->end();
}

void Report::perIteration(const std::vector<double>& times, const std::vector<double>& rows, bool inPlace) {
  const IterationStats stats = iterationStats({times.begin() + options_.perIterationSkip, times.end()});
  std::fprintf(out_, "  %7s  %7s  %7s  %7s", fitted(stats.min * 1e6, 7).c_str(),
               fitted(stats.max * 1e6, 7).c_str(), fitted(stats.p99 * 1e6, 7).c_str(),
               fitted(stats.variationPercent(), 7).c_str());
  if (inPlace && options_.timestamps) timestamp();
  if (json_ == nullptr) return;
  json_->key(inPlace ? "in_place_per_iter" : "out_of_place_per_iter").beginObject();
  json_->key("skipped_iterations").integer(options_.perIterationSkip);
  json_->key("min_us").real(stats.min * 1e6);
  json_->key("max_us").real(stats.max * 1e6);
  json_->key("avg_us").real(stats.average * 1e6);
  json_->key("p50_us").real(stats.p50 * 1e6);
  json_->key("p95_us").real(stats.p95 * 1e6);
  json_->key("p99_us").real(stats.p99 * 1e6);
  json_->key("stdev_us").real(stats.deviation * 1e6);
  json_->key("cv_pct").real(stats.variationPercent());
  json_->key("times_us").beginList();
  for (double time : times) json_->real(time * 1e6);
  json_->end();
  if (rows.size() > times.size()) {
    json_->key("per_process_max_times_us").beginList();
    for (size_t at = 0; at < rows.size(); at += times.size()) {
      json_->beginList();
      for (size_t i = 0; i < times.size(); ++i) json_->real(rows[at + i] * 1e6);
      json_->end();
    }
    json_->end();
  }
  json_->end();
}

void Report::endRow() {
  std::fprintf(out_, "\n");
  rowOpen_ = false;
  if (json_ == nullptr) return;
  json_->key("actual_iterations").integer(options_.iterations);
  json_->key("experiment_name").string("");
  json_->end();
}

// A bandwidth passes from nine tenths of what was asked for.
void Report::footer(const char* program, int64_t outOfBounds, double averageBusBandwidth, double minimum) {
  const bool enough = averageBusBandwidth >= minimum * 0.9;
  std::fprintf(out_, "# %-20s : %" PRId64 " %s\n", "Out of bounds values", outOfBounds,
               outOfBounds != 0 ? "FAILED" : "OK");
  std::fprintf(out_, "# %-20s : %g %s\n", "Avg bus bandwidth", averageBusBandwidth,
               minimum < 0 ? ""
               : enough    ? "OK"
                           : "FAILED");
  std::fprintf(out_, "#\n# Collective test concluded: %s\n", program);
  if (json_ == nullptr) return;
  json_->end();  // results
  json_->key("out_of_bounds").beginObject();
  json_->key("count").integer(outOfBounds);
  json_->key("okay").truth(outOfBounds == 0);
  json_->end();
  json_->key("average_bus_bandwidth").beginObject();
  json_->key("bandwidth").real(averageBusBandwidth);
  json_->key("okay");
  if (minimum < 0)
    json_->string("unchecked");
  else
    json_->truth(enough);
  json_->end();
}

void Report::memory(int64_t initialization, int64_t user, int64_t collective) {
  std::fprintf(out_, "# %-20s : Initialization %s | User-Allocated %s | Collective %s | Total  %s\n",
               "Host memory usage", memoryText(initialization).c_str(), memoryText(user).c_str(),
               memoryText(collective).c_str(), memoryText(initialization + user + collective).c_str());
}

// `rate` is what the rank has sent over the link in the whole measurement, `slowest` what a socket has sent
// while it had something to send: the ranks' own pauses do not count there.
void Report::links(const std::vector<LinkRecord>& records, double seconds) {
  std::fprintf(out_,
               "#\n# Links: what each rank has sent and received in %.3g s\n"
               "# %5s  %10s  %8s  %5s  %10s  %10s  %6s  %8s  %9s  %7s  %8s  %5s\n"
               "# %5s  %10s  %8s  %5s  %10s  %10s  %6s  %8s  %9s  %7s  %8s  %5s\n",
               seconds, "rank", "host", "link", "conns", "sent", "received", "share", "rate", "retrans", "rtt",
               "slowest", "peer", "", "", "", "", "(MB)", "(MB)", "(%)", "(MB/s)", "(packets)", "(us)",
               "(MB/s)", "");
  if (json_ != nullptr) json_->key("links").beginList();
  for (const LinkRecord& link : records) {
    if (link.name[0] == '\0') continue;
    uint64_t all = 0;
    for (const LinkRecord& other : records)
      if (other.rank == link.rank && other.name[0] != '\0') all += other.sent + other.received;
    const double share =
        all > 0 ? 100 * static_cast<double>(link.sent + link.received) / static_cast<double>(all) : 0;
    const double rate = static_cast<double>(link.sent) / 1e6 / seconds;
    const double slowest = static_cast<double>(link.slowestRate) / 1e6;
    std::fprintf(out_, "# %5d  %10s  %8s  %5d  %10.3f  %10.3f  %6.1f  %8s  %9" PRIu64 "  %7" PRIu64, link.rank,
                 link.host, link.name, link.connections, static_cast<double>(link.sent) / 1e6,
                 static_cast<double>(link.received) / 1e6, share, fitted(rate, 8).c_str(), link.retransmits,
                 link.roundTripMicroseconds);
    if (link.connections == 0)
      std::fprintf(out_, "  not used\n");
    else if (link.slowestRate == 0)
      std::fprintf(out_, "  %8s  %5s\n", "-", "-");
    else
      std::fprintf(out_, "  %8s  %5d\n", fitted(slowest, 8).c_str(), link.slowestPeer);
    if (link.more > 0) std::fprintf(out_, "# %5d  %10s  and %d more\n", link.rank, link.host, link.more);
    if (json_ == nullptr) continue;
    json_->beginObject();
    json_->key("rank").integer(link.rank);
    json_->key("hostname").string(link.host);
    json_->key("link").string(link.name);
    json_->key("connections").integer(link.connections);
    json_->key("sent_bytes").integer(static_cast<int64_t>(link.sent));
    json_->key("received_bytes").integer(static_cast<int64_t>(link.received));
    json_->key("share_pct").real(share);
    json_->key("sent_bytes_per_second").integer(static_cast<int64_t>(rate * 1e6));
    json_->key("retransmits").integer(static_cast<int64_t>(link.retransmits));
    json_->key("rtt_us").integer(static_cast<int64_t>(link.roundTripMicroseconds));
    json_->key("slowest_bytes_per_second").integer(static_cast<int64_t>(link.slowestRate));
    json_->key("slowest_peer").integer(link.slowestRate > 0 ? link.slowestPeer : -1);
    json_->end();
  }
  if (json_ != nullptr) json_->end();
}

void Report::finish(const std::string& error) {
  std::fprintf(out_, rowOpen_ ? "\n#\n" : "#\n");
  if (error.empty())
    std::fprintf(out_, "\n");
  else
    std::fprintf(out_, "# error: %s\n", error.c_str());
  if (json_ == nullptr) return;
  json_->unwind(1);  // a run that failed has a row and the table open
  json_->key("errors").beginList();
  if (!error.empty()) json_->string(error);
  json_->end();
  json_->key("end_time").string(timeOfDay());
  json_->finish();
}

}  // namespace eccl::perf
