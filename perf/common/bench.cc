#include "common/bench.h"

#include <algorithm>
#include <cstring>

namespace eccl::perf {
namespace {
double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The values of an option that is one of `count` or all of them.
std::vector<int> selected(int choice, int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i)
    if (choice == kAll || choice == i) all.push_back(i);
  return all;
}
}  // namespace

// Types outside, then operators, then roots: the order of nccl-tests' rows.
Outcome Bench::run() {
  const Collective& collective = session_.collective;
  const std::vector<int> ops = collective.listsOps() ? selected(options_.op, kOps) : std::vector<int>{0};
  const std::vector<int> roots =
      collective.rooted() ? selected(options_.root, session_.nranks) : std::vector<int>{-1};
  for (int type : selected(options_.type, kTypes))
    for (int op : ops)
      for (int root : roots) TOOLS_TRY(sweep(kTypeInfos[type], op, root));
  return {};
}

// All sizes for one type, operator and root. The barrier keeps a fast thread from issuing while a slow one
// still makes its tables, which a time limit could take for a hang.
Outcome Bench::sweep(const TypeInfo& type, int op, int root) {
  type_ = &type;
  op_ = op;
  root_ = root;
  generator_.reset();
  if (options_.check > 0) generator_.emplace(type, static_cast<Op>(op), session_.nranks);
  TOOLS_TRY(makeOperators(op));
  TOOLS_TRY(meet([&] { return session_.exchange.barrier(); }));
  TOOLS_TRY(sizes());
  return destroyOperators();
}

// mulsum's operators live for a whole sweep: making one is not part of what is timed.
Outcome Bench::makeOperators(int op) {
  operators_.assign(members_.size(), static_cast<ecclRedOp_t>(op));  // the first five have ECCL's values
  if (static_cast<Op>(op) != Op::mulsum || !session_.collective.reduces()) return {};
  for (size_t i = 0; i < members_.size(); ++i) {
    uint64_t scalar = encode(*type_, Generator::scalar(members_[i].rank));
    TOOLS_TRY(Outcome::library(ecclRedOpCreatePreMulSum(&operators_[i], &scalar, type_->type,
                                                        ecclScalarHostImmediate, members_[i].comm),
                               members_[i].comm,
                               formatted("ecclRedOpCreatePreMulSum on rank %d", members_[i].rank)));
  }
  return {};
}

Outcome Bench::destroyOperators() {
  for (size_t i = 0; i < members_.size(); ++i)
    if (operators_[i] >= ecclNumOps)
      TOOLS_TRY(Outcome::library(ecclRedOpDestroy(operators_[i], members_[i].comm), members_[i].comm,
                                 "ecclRedOpDestroy"));
  return {};
}

// Warm-up first, at sizes that double, so that every connection and plan exists before the first row.
Outcome Bench::sizes() {
  for (size_t bytes = options_.minBytes; bytes <= session_.maxBytes; bytes = std::max<size_t>(2 * bytes, 1)) {
    setSize(bytes);
    for (int i = 0; i < options_.warmup; ++i) TOOLS_TRY(issue(i));
    TOOLS_TRY(drain());
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (size_t bytes = options_.minBytes; bytes <= session_.maxBytes; bytes = options_.nextSize(bytes)) {
      setSize(bytes);
      TOOLS_TRY(measureBoth());
    }
  }
  return {};
}

void Bench::setSize(size_t bytes) {
  inPlace_ = false;
  shape_ = session_.collective.shape(bytes / elementBytes(), elementBytes(), session_.nranks);
  session_.watchdog.describe(thread_, describe());
}

Outcome Bench::measureBoth() {
  if (report_ != nullptr)
    report_->beginRow(messageBytes(), shape_.param, type_->name,
                      session_.collective.listsOps() ? kOpNames[op_] : "none", root_);
  for (bool inPlace : {false, true}) {
    inPlace_ = inPlace;
    session_.watchdog.describe(thread_, describe());
    TOOLS_TRY(measure());
  }
  if (report_ != nullptr) report_->endRow();
  return {};
}

// One half of a row: fill, one untimed operation, the timed loop, and then the checked operations, each with
// data of its own. Checking is apart from timing because comparing would disturb the caches.
Outcome Bench::measure() {
  const bool checked = options_.check > 0 && !staged();
  if (options_.check > 0) fill();  // so that the timed operations work on ordinary numbers
  TOOLS_TRY(iterate(0));
  TOOLS_TRY(drain());
  Measurement m;
  std::vector<double> iterations;
  TOOLS_TRY(timeRuns(&m, &iterations));
  m.checked = checked;
  for (int i = 0; checked && i < options_.check && m.wrong == 0; ++i) TOOLS_TRY(check(&m.wrong));
  if (report_ != nullptr) report_->measurement(m, inPlace_);
  if (options_.perIteration) TOOLS_TRY(reportIterations(iterations));
  totals_.busBandwidth += m.busbw;
  ++totals_.measurements;
  return {};
}

// Several runs (--consistency) are apart: each begins when all ranks have ended the one before. The median one
// is what is shown.
Outcome Bench::timeRuns(Measurement* m, std::vector<double>* iterations) {
  struct Timed {
    double seconds = 0, cpuSeconds = 0;
  };
  std::vector<Timed> runs(std::max(options_.consistency, 1));
  for (Timed& run : runs) {
    TOOLS_TRY(meet([&] { return session_.exchange.barrier(); }));
    TOOLS_TRY(timeLoop(&run.seconds, &run.cpuSeconds, iterations));
    TOOLS_TRY(meet([&] { return session_.exchange.average(thread_, options_.average, &run.seconds); }));
  }
  std::sort(runs.begin(), runs.end(), [](const Timed& a, const Timed& b) { return a.seconds < b.seconds; });
  const Timed& median = runs[runs.size() / 2];
  m->microseconds = (options_.cpuTime ? median.cpuSeconds : median.seconds) * 1e6;
  m->algbw =
      session_.collective.bandwidthBytes(shape_.param, elementBytes(), session_.nranks) / 1e9 / median.seconds;
  m->busbw = m->algbw * session_.collective.busFactor(session_.nranks);
  m->slowest = runs.back().seconds / median.seconds;
  m->fastest = runs.front().seconds / median.seconds;
  return {};
}

// Seconds per operation: until the calls had returned, and until everything was complete. Where every iteration
// ends with a barrier (-z 3) only the time outside of it counts.
Outcome Bench::timeLoop(double* seconds, double* cpuSeconds, std::vector<double>* iterations) {
  double withoutBarriers = 0;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < options_.iterations; ++i) {
    const Clock::time_point begun = Clock::now();
    TOOLS_TRY(iterate(i));
    if (options_.blocking == 3 || options_.perIteration) {
      TOOLS_TRY(drain());
      const double taken = secondsSince(begun);
      withoutBarriers += taken;
      if (options_.perIteration) iterations->push_back(taken / options_.aggregate);
    }
    if (options_.blocking == 3) TOOLS_TRY(meet([&] { return session_.exchange.barrier(); }));
  }
  const double operations = static_cast<double>(options_.iterations) * options_.aggregate;
  *cpuSeconds = (options_.blocking == 3 ? withoutBarriers : secondsSince(start)) / operations;
  TOOLS_TRY(drain());
  *seconds = (options_.blocking == 3 ? withoutBarriers : secondsSince(start)) / operations;
  return {};
}

// One iteration: -m operations in one group. -z 1 and 2 wait after each operation; inside a group nothing
// has started yet, so with -m they wait after the group.
Outcome Bench::iterate(int iteration) {
  const int first = iteration * options_.aggregate;
  if (staged()) {
    TOOLS_TRY(drain());
    for (int a = 0; a < options_.aggregate; ++a) stage(first + a);
  }
  if (options_.aggregate > 1) TOOLS_TRY(group(ecclGroupStart(), "ecclGroupStart"));
  Outcome issued;
  for (int a = 0; a < options_.aggregate && issued.ok(); ++a) issued = issue(first + a);
  if (options_.aggregate > 1) {
    const Outcome ended = group(ecclGroupEnd(), "ecclGroupEnd");
    if (issued.ok()) issued = ended;
  }
  TOOLS_TRY(issued);
  if (options_.blocking == 1 || options_.blocking == 2) TOOLS_TRY(drain());
  if (options_.blocking == 1) TOOLS_TRY(meet([&] { return session_.exchange.barrier(); }));
  return {};
}

// One checked operation. Wrong elements of all ranks are summed, so that all ranks go on alike.
Outcome Bench::check(int64_t* wrong) {
  fill();
  TOOLS_TRY(issue(0));
  TOOLS_TRY(drain());
  for (size_t i = 0; i < members_.size(); ++i)
    *wrong += generator_->countWrong(receiveBuffer(i, 0), session_.collective.expected(part(i), inPlace_),
                                     repetition_);
  if (*wrong != 0) ++totals_.outOfBounds;
  return meet([&] { return session_.exchange.sum(wrong); });
}

// Fresh data: what an earlier repetition left must never pass for a result of this one.
void Bench::fill() {
  ++repetition_;
  for (size_t i = 0; i < members_.size(); ++i) {
    std::memset(members_[i].receive + options_.unalign * elementBytes(), 0, messageBytes());
    // Staged input starts out in the receive buffer too; stage() copies it aside.
    char* to = staged() ? receiveBuffer(i, 0) : sendBuffer(i, 0);
    generator_->fill(to, session_.collective.input(part(i)), repetition_);
  }
}

// An iteration lasts until its slowest rank is done: the maximum over threads, then over processes.
Outcome Bench::reportIterations(const std::vector<double>& iterations) {
  std::vector<double> rows;
  TOOLS_TRY(meet([&] { return session_.exchange.greatestRows(iterations, &rows); }));
  if (report_ == nullptr) return {};
  std::vector<double> slowest(rows.begin(), rows.begin() + iterations.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    double& time = slowest[i % iterations.size()];
    time = std::max(time, rows[i]);
  }
  report_->perIteration(slowest, rows, inPlace_);
  return {};
}

// What a program does by hand when a call has no in-place form.
void Bench::stage(int operation) {
  const size_t shift = shiftOf(operation);
  for (size_t i = 0; i < members_.size(); ++i)
    std::memcpy(sendBuffer(i, shift), receiveBuffer(i, shift), shape_.send * elementBytes());
}

// One operation on all ranks of this thread. Several ranks need a group: otherwise the first call could wait
// for a rank that the same thread would only serve afterwards.
Outcome Bench::issue(int operation) {
  if (session_.failed) return Outcome::error(Exit::internal, "another thread failed");
  session_.watchdog.begin(thread_);
  const bool grouped = members_.size() > 1;
  if (grouped) TOOLS_TRY(group(ecclGroupStart(), "ecclGroupStart"));
  Outcome outcome;
  for (size_t i = 0; i < members_.size() && outcome.ok(); ++i) {
    const ecclResult_t result = call(i, shiftOf(operation));
    if (result != ecclSuccess)
      outcome = Outcome::library(result, members_[i].comm,
                                 formatted("rank %d, %s", members_[i].rank, describe().c_str()));
  }
  if (grouped) {
    const Outcome ended = group(ecclGroupEnd(), "ecclGroupEnd");
    if (outcome.ok()) outcome = ended;
  }
  session_.watchdog.end(thread_);
  return outcome;
}

ecclResult_t Bench::call(size_t member, size_t shift) const {
  const Member& m = members_[member];
  return session_.collective.run({part(member), sendBuffer(member, shift), receiveBuffer(member, shift),
                                  operators_[member], m.comm, m.stream});
}

// Waits for everything issued. The NULL stream stands for the default streams of all communicators of the
// process, other threads' included: so nobody may issue again before everybody has waited, and a call
// outside a group, which has completed when it returns, must not be waited for at all.
Outcome Bench::drain() {
  const bool grouped = members_.size() > 1 || options_.aggregate > 1;
  session_.watchdog.begin(thread_);
  Outcome outcome;
  for (size_t i = 0; i < members_.size() && outcome.ok(); ++i) {
    ecclResult_t result = ecclSuccess;
    if (!options_.streamNull || grouped) result = ecclStreamSynchronize(members_[i].stream);
    if (result == ecclSuccess) static_cast<void>(ecclCommGetAsyncError(members_[i].comm, &result));
    if (result != ecclSuccess)
      outcome = Outcome::library(result, members_[i].comm,
                                 formatted("rank %d, waiting for %s", members_[i].rank, describe().c_str()));
  }
  session_.watchdog.end(thread_);
  TOOLS_TRY(outcome);
  if (options_.streamNull && grouped && options_.threads > 1)
    TOOLS_TRY(meet([&] { return session_.exchange.barrier(); }));
  return {};
}

Outcome Bench::group(ecclResult_t result, const char* what) const {
  if (result == ecclSuccess) return {};
  return Outcome::library(result, nullptr, formatted("%s of %s", what, describe().c_str()));
}

// Operations follow one another through the buffer, so that none finds its data in a cache that the one
// before has warmed, as far as the buffer reaches.
size_t Bench::shiftOf(int operation) const {
  const size_t steps = messageBytes() > 0 ? std::max<size_t>(session_.maxBytes / messageBytes(), 1) : 1;
  return messageBytes() * (static_cast<size_t>(operation) % steps);
}

char* Bench::sendBuffer(size_t member, size_t shift) const {
  const Member& m = members_[member];
  shift += options_.unalign * elementBytes();
  if (!inPlace_ || staged()) return m.send + shift;
  return m.receive + shift + shape_.sendInPlace * static_cast<size_t>(m.rank) * elementBytes();
}

char* Bench::receiveBuffer(size_t member, size_t shift) const {
  const Member& m = members_[member];
  shift += options_.unalign * elementBytes();
  return m.receive + shift +
         (inPlace_ ? shape_.receiveInPlace * static_cast<size_t>(m.rank) * elementBytes() : 0);
}

// For messages: what, how much, which ranks.
std::string Bench::describe() const {
  std::string text =
      formatted("%s of %zu bytes (%s%s%s), %s, rank", session_.collective.call(), messageBytes(), type_->name,
                session_.collective.reduces() ? " " : "", session_.collective.reduces() ? kOpNames[op_] : "",
                inPlace_ ? "in place" : "out of place");
  for (const Member& member : members_) text += formatted(" %d", member.rank);
  return root_ >= 0 ? text + formatted(", root %d", root_) : text;
}

}  // namespace eccl::perf
