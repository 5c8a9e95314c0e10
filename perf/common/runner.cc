#include "common/runner.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include "common/bench.h"
#include "common/buffers.h"
#include "common/communicators.h"
#include "common/environment.h"
#include "common/host.h"
#include "common/number.h"
#include "tools/common/job.h"
#include "tools/common/number.h"

namespace eccl::perf {
namespace {

const char* baseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// A new file: what an earlier run wrote is not overwritten, <path>.0, <path>.1 … are tried instead.
Outcome createJson(const std::string& path, FILE** file) {
  std::string name = path;
  for (int attempt = 0; (*file = std::fopen(name.c_str(), "wxe")) == nullptr; ++attempt) {
    if (errno != EEXIST) return Outcome::fromErrno(errno, "--output_file: creating " + name);
    name = formatted("%s.%d", path.c_str(), attempt);
  }
  std::printf("# Writing JSON output to %s\n", name.c_str());
  return {};
}

// One process's run. The stages are in the order of run(); each uses what the ones before made.
class Run {
 public:
  Run(int argc, char** argv, const Options& options, Collective& collective, const tools::Place& place,
      std::unique_ptr<tools::Rendezvous> rendezvous)
      : argc_(argc),
        argv_(argv),
        program_(baseName(argv[0])),
        options_(options),
        collective_(collective),
        place_(place),
        rendezvous_(std::move(rendezvous)),
        comms_(place),
        exchange_(options.threads),
        watchdog_(options.timeoutSeconds, options.threads, [this](const Outcome& o) { fail(o); }) {}

  int run() {
    if (const Outcome outcome = stages(); !outcome.ok()) fail(outcome);
    if (report_ != nullptr) report_->finish(failure_.ok() ? "" : failure_.text());
    if (json_ != nullptr) std::fclose(json_);
    return static_cast<int>(failure_.ok() ? verdict_ : failure_.code());
  }

 private:
  bool isFirst() const { return place_.proc == 0; }

  // The first error counts; what follows from it, in other threads, does not. Stops everybody here, and
  // through the library everybody elsewhere.
  void fail(const Outcome& outcome) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (failed_.exchange(true)) return;
      failure_ = outcome;
      std::fflush(stdout);
      std::fprintf(stderr, "%s: %s (process %d): %s\n", thisProcess(0).host, program_, place_.proc,
                   outcome.text().c_str());
    }
    comms_.abort();
    exchange_.wake();
  }

  Outcome stages() {
    TOOLS_TRY(readEnvironment());
    TOOLS_TRY(openReport());
    memory_[0] = residentBytes();
    TOOLS_TRY(join());
    TOOLS_TRY(describeJob());
    TOOLS_TRY(planGroups());
    memory_[1] = residentBytes();
    TOOLS_TRY(measure());
    return conclude();
  }

  // All of it before joining: a wrong variable is this process's mistake, not something its peers should have
  // to hear of as a broken connection.
  Outcome readEnvironment() {
    TOOLS_TRY(splitColor(place_.proc, ::getenv, &color_));
    const char* device = testsVariable("DEVICE", ::getenv);
    if (device != nullptr && !tools::parseInteger(device, 0, 1 << 20, &firstDevice_))
      return Outcome::error(Exit::usage, "NCCL_TESTS_DEVICE takes the number of the first device; got '%s'",
                            device);
    const char* text = testsVariable("MIN_BW", ::getenv);
    if (text == nullptr) return {};
    char* end = nullptr;
    minimum_ = std::strtod(text, &end);
    if (end != text && *end == '\0' && minimum_ >= 0) return {};
    return Outcome::error(Exit::usage, "NCCL_TESTS_MIN_BW takes a bandwidth in GB/s; got '%s'", text);
  }

  // Before joining, so that a result file that cannot be written is known at once.
  Outcome openReport() {
    if (!isFirst()) return {};
    int version = 0;
    TOOLS_TRY(Outcome::library(ecclGetVersion(&version), nullptr, "ecclGetVersion"));
    if (!options_.jsonPath.empty()) {
      TOOLS_TRY(createJson(options_.jsonPath, &json_));
      jsonWriter_ = std::make_unique<JsonWriter>(json_);
    }
    report_ = std::make_unique<Report>(stdout, jsonWriter_.get(), options_);
    report_->beginDocument(argc_, argv_, environ, version);
    report_->banner(program_, ECCL_VERSION_CODE, version);
    return {};
  }

  // From here on a failure of any rank reaches the others through the library.
  Outcome join() {
    ecclUniqueId id;
    const auto begun = std::chrono::steady_clock::now();
    TOOLS_TRY(rendezvous_->id(&id));
    TOOLS_TRY(comms_.join(id, options_.parallelInit));
    joinSeconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    rendezvous_->joined();
    if (place_.procs == 1) return {};
    TOOLS_TRY(comms_.makeSide());
    exchange_.connect(comms_.side(), place_.procs);
    return {};
  }

  // Everybody learns where everybody is, so that all come to the same conclusions.
  Outcome describeJob() {
    ProcessRecord mine = thisProcess(color_);
    mine.joinSeconds = joinSeconds_;
    records_.assign(place_.procs, mine);
    if (place_.procs > 1) TOOLS_TRY(exchange_.gather(&mine, sizeof mine, records_.data()));

    if (report_ != nullptr) {
      report_->devices(deviceLines(records_, place_.perProcess, static_cast<int>(firstDevice_)));
      for (const ProcessRecord& each : records_) joinSeconds_ = std::max(joinSeconds_, each.joinSeconds);
      report_->init(joinSeconds_, place_.nranks());
    }

    maxBytes_ = options_.maxBytes;
    const size_t fits = largestBuffer(records_, place_.perProcess);
    if (maxBytes_ <= fits) return {};
    if (options_.minBytes > fits)
      return Outcome::error(Exit::system,
                            "--minbytes %zu does not fit: the ranks of one host have memory for %zu each",
                            options_.minBytes, fits);
    maxBytes_ = fits;
    if (report_ != nullptr)
      report_->remark(formatted("Reducing maxBytes to %zu due to memory limitation", maxBytes_));
    return {};
  }

  // Ranks are numbered within their group, in the order of the processes; a group has the color of its members.
  Outcome planGroups() {
    int before = 0, members = 0;
    for (int proc = 0; proc < place_.procs; ++proc) {
      if (records_[proc].color != color_) continue;
      ++members;
      before += proc < place_.proc;
    }
    if (members != place_.procs) TOOLS_TRY(comms_.split(color_));
    firstRank_ = before * place_.perProcess;
    nranks_ = members * place_.perProcess;
    return agree(checkPlan());
  }

  Outcome checkPlan() {
    if (collective_.rooted() && options_.root >= nranks_)
      return Outcome::error(Exit::usage, "--root %d: there are only %d ranks", options_.root, nranks_);
    return collective_.prepare(nranks_, options_.minBytes, maxBytes_);
  }

  // Everybody hears that somebody cannot go on before anybody leaves, so that each says its own reason and not
  // that another one broke off.
  Outcome agree(const Outcome& mine) {
    const char failed = !mine.ok();
    std::string all(place_.procs, failed);
    if (place_.procs > 1) TOOLS_TRY(exchange_.gather(&failed, 1, all.data()));
    const size_t proc = all.find(1);
    if (proc == std::string::npos) return {};
    static_cast<void>(comms_.destroy());  // all leave together; why is known already
    if (!mine.ok()) return mine;
    return Outcome::error(Exit::usage, "process %zu cannot go on; its own message says why", proc);
  }

  // Thread 0 is this one, so that rank 0 prints from the thread that has printed all else.
  Outcome measure() {
    if (report_ != nullptr) report_->tableHeader();
    const auto begun = std::chrono::steady_clock::now();
    const Session session{options_, collective_, nranks_, maxBytes_, exchange_, watchdog_, failed_};
    totals_.resize(options_.threads);
    std::vector<std::thread> threads;
    for (int t = 1; t < options_.threads; ++t) {
      threads.emplace_back([&, t] {
        if (const Outcome outcome = runThread(session, t); !outcome.ok()) fail(outcome);
      });
    }
    if (const Outcome outcome = runThread(session, 0); !outcome.ok()) fail(outcome);
    for (std::thread& thread : threads) thread.join();
    if (failed_) return failure_;
    measuredSeconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (options_.linkReport) TOOLS_TRY(gatherLinks());
    return comms_.destroy();
  }

  // Those of all ranks: a slow link shows beside the others.
  Outcome gatherLinks() {
    const size_t each = static_cast<size_t>(place_.perProcess) * kMostLinks;
    std::vector<LinkRecord> mine(each);
    for (int i = 0; i < place_.perProcess; ++i)
      TOOLS_TRY(
          readLinks(comms_.test(i), place_.firstRank() + i, records_[place_.proc].host, &mine[i * kMostLinks]));
    links_.assign(each * place_.procs, LinkRecord{});
    if (place_.procs > 1) return exchange_.gather(mine.data(), each * sizeof(LinkRecord), links_.data());
    links_ = mine;
    return {};
  }

  // Memory belongs to the thread that uses it: the first touch decides where its pages lie.
  Outcome runThread(const Session& session, int thread) {
    const int count = options_.ranksPerThread;
    std::vector<RankMemory> memory(count);
    std::vector<Member> members;
    const size_t bytes = maxBytes_ + 8 * options_.unalign;  // 8: the widest type
    for (int i = 0; i < count; ++i) {
      const int local = thread * count + i;
      const ecclComm_t comm = comms_.test(local);
      TOOLS_TRY(memory[i].allocate(bytes, options_.localRegister, comm));
      if (!options_.streamNull) TOOLS_TRY(memory[i].makeStream());
      members.push_back({firstRank_ + local, comm, memory[i].stream(), memory[i].send(), memory[i].receive()});
    }
    TOOLS_TRY(exchange_.barrier());  // nobody starts before everybody has memory
    if (thread == 0) memory_[2] = residentBytes();
    Bench bench(session, thread, members, thread == 0 ? report_.get() : nullptr);
    TOOLS_TRY(bench.run());
    totals_[thread] = bench.totals();
    int64_t wrong = totals_[thread].outOfBounds;
    TOOLS_TRY(exchange_.sum(&wrong));
    outOfBounds_ = wrong;  // the same in every thread
    if (thread == 0) memory_[3] = residentBytes();
    for (int i = 0; i < count; ++i) TOOLS_TRY(memory[i].release(members[i].comm));
    return exchange_.barrier();  // no communicator ends while a rank still has something of it
  }

  Outcome conclude() {
    const double average = totals_[0].measurements > 0 ? totals_[0].busBandwidth / totals_[0].measurements : 0;
    if (report_ != nullptr) {
      report_->footer(program_, outOfBounds_, average, minimum_);
      if (options_.linkReport) report_->links(links_, measuredSeconds_);
      if (options_.memoryReport)
        report_->memory(memory_[1] - memory_[0], memory_[2] - memory_[1], memory_[3] - memory_[2]);
    }
    if (outOfBounds_ != 0 || average < minimum_ * 0.9) verdict_ = Exit::results;
    return {};
  }

  const int argc_;
  char** const argv_;
  const char* const program_;
  const Options& options_;
  Collective& collective_;
  const tools::Place place_;
  std::unique_ptr<tools::Rendezvous> rendezvous_;

  FILE* json_ = nullptr;
  std::unique_ptr<JsonWriter> jsonWriter_;
  std::unique_ptr<Report> report_;
  std::vector<ProcessRecord> records_;
  std::vector<LinkRecord> links_;  // --report_links
  double joinSeconds_ = 0, measuredSeconds_ = 0;
  size_t maxBytes_ = 0;
  int firstRank_ = 0, nranks_ = 0;
  std::vector<Totals> totals_;
  std::atomic<int64_t> outOfBounds_{0};
  int64_t memory_[4] = {};  // resident: at the start, joined, with buffers, at the end
  Exit verdict_ = Exit::ok;
  int color_ = 0;               // which of the groups of NCCL_TESTS_SPLIT
  long long firstDevice_ = -1;  // < 0: numbered from 0 on every host
  double minimum_ = -1;         // GB/s that the average must reach nine tenths of; < 0: none

  std::mutex mutex_;
  std::atomic<bool> failed_{false};
  Outcome failure_;
  // Declared last: they are used from other threads and must end first.
  Communicators comms_;
  Exchange exchange_;
  Watchdog watchdog_;
};

// Everything up to the run itself must come before any thread: takePlace() needs that.
Outcome start(int argc, char** argv, Collective& collective, int* exitCode) {
  Options options;
  TOOLS_TRY(parseOptions(argc, argv, &options));
  if (options.help) {
    std::fputs(usage(baseName(argv[0])).c_str(), stdout);
    return {};
  }
  tools::Place place;
  tools::Fork fork;
  TOOLS_TRY(tools::takePlace(options.procs, options.threads * options.ranksPerThread, options.threads, &place,
                             &fork));
  if (!fork.exitCode && options.procs > 1 && options.bind != 0) tools::bindToShare(place);
  *exitCode = fork.exitCode ? *fork.exitCode
                            : Run(argc, argv, options, collective, place, std::move(fork.rendezvous)).run();
  return {};
}

}  // namespace

int runTool(int argc, char** argv, Collective& collective) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // rows appear as they are measured, also in a file
  int exitCode = 0;
  const Outcome outcome = start(argc, argv, collective, &exitCode);
  if (outcome.ok()) return exitCode;
  std::fprintf(stderr, "%s: %s\n", baseName(argv[0]), outcome.text().c_str());
  return static_cast<int>(outcome.code());
}

}  // namespace eccl::perf
