#include "runtime/calibration/machine_speeds.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/atomics.h"
#include "base/thread.h"
#include "kernels/reduce.h"
#include "program/ring_layout.h"
#include "runtime/executor/result_writes.h"

namespace eccl::runtime {
namespace {

using algorithms::CostParameters;
using algorithms::CostTerm;
using Clock = std::chrono::steady_clock;

constexpr double kMB = 1e6;
constexpr size_t kPage = 4096;
constexpr size_t kPiece = 64 << 10;    // a move's bytes
constexpr size_t kLargest = 16 << 20;  // of an input, and of an output
constexpr size_t kSlots = 128 << 10;   // what messages go to and fro in
constexpr size_t kSide = 2 * kLargest + kSlots;
constexpr auto kTime = std::chrono::milliseconds(500);  // idle processors need much less
constexpr int kNotices = 200;                           // back and forth, in each try
/// A thread that loses its processor so often has measured other programs, too.
constexpr long kMostSwitches = 8;

/// Memory of both threads, in small pages, as memory that processes share has them.
class Pages {
 public:
  Pages() : at_(mmap(nullptr, 2 * kSide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (ok()) madvise(at_, 2 * kSide, MADV_NOHUGEPAGE);
  }
  ~Pages() {
    if (ok()) munmap(at_, 2 * kSide);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  bool ok() const { return at_ != MAP_FAILED; }
  std::byte* of(int side) const { return static_cast<std::byte*>(at_) + static_cast<size_t>(side) * kSide; }

 private:
  void* at_;
};

/// What the two threads have in common.
struct Common {
  struct alignas(64) Line {
    std::atomic<uint64_t> value{0};
  };
  Pages pages;
  const Clock::time_point late = Clock::now() + kTime;
  Line came[2], ball;
  std::atomic<bool> stop{false};
  double took[2] = {};
  int errors[2] = {};
  long switches[2] = {};
};

/// One of the two threads.
class Side {
 public:
  Side(Common& common, int me)
      : common_(common), me_(me), mine_(common.pages.of(me)), theirs_(common.pages.of(1 - me)) {
    std::memset(mine_, me, kSide);  // the pages are there, near to this thread
    meet();
    clock_ = timeWithClock(0, 20, [] {});
  }

  std::byte* input() const { return mine_; }
  std::byte* output() const { return mine_ + kLargest; }
  std::byte* slots() const { return mine_ + 2 * kLargest; }
  std::byte* theirInput() const { return theirs_; }
  std::byte* theirOutput() const { return theirs_ + kLargest; }
  std::byte* theirSlots() const { return theirs_ + 2 * kLargest; }

  /// Microseconds that the slower side takes, the least of some tries. Before each, both have written `renewed`
  /// bytes of their input, and looked at `read` bytes of their output: a program reads its results, and whoever
  /// writes new ones there from another processor has to take the lines away.
  template <class Work>
  double time(size_t renewed, int tries, Work work, size_t read = 0) {
    const double least = timeWithClock(renewed, tries, work, read);
    return std::max(least - clock_, least / 10);
  }

  /// Microseconds until the other side sees what this one writes.
  double notice() {
    uint64_t next = 0;
    const double there = time(0, 5, [&] {
      for (int i = 0; i < kNotices; ++i, next += 2) {
        if (me_ == 0) common_.ball.value.store(next + 1, std::memory_order_release);
        awaitAtLeast(common_.ball.value, next + 1 + static_cast<uint64_t>(1 - me_));
        if (me_ == 1) common_.ball.value.store(next + 2, std::memory_order_release);
      }
    });
    return there / (2 * kNotices);
  }

 private:
  template <class Work>
  double timeWithClock(size_t renewed, int tries, Work work, size_t read = 0) {
    double least = 1e30;
    for (int i = 0; i < tries && !common_.stop; ++i) {
      std::memset(input(), i, renewed);
      for (size_t at = 0; at < read; at += kCacheLine) static_cast<const volatile std::byte*>(output())[at];
      meet();
      const auto begin = Clock::now();
      work();
      common_.took[me_] = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
      if (me_ == 0 && Clock::now() > common_.late) common_.stop = true;
      meet();
      least = std::min(least, std::max(common_.took[0], common_.took[1]));
    }
    return least;
  }
  void meet() {
    common_.came[me_].value.store(++meetings_, std::memory_order_release);
    awaitAtLeast(common_.came[1 - me_].value, meetings_);
  }
  /// Where something else has the other side's processor, that may take long.
  static void awaitAtLeast(const std::atomic<uint64_t>& word, uint64_t value) {
    for (int looks = 0; word.load(std::memory_order_acquire) < value; ++looks) {
      relaxProcessor();
      if (looks > 1000) std::this_thread::yield();
    }
  }

  Common& common_;
  const int me_;
  std::byte* const mine_;
  std::byte* const theirs_;
  uint64_t meetings_ = 0;
  double clock_ = 0;  // µs that looking at the clock takes
};

/// As the host executor does it: one or two sources, by pieces.
void move(std::byte* to, const std::byte* from, size_t bytes, bool streams, const std::byte* second = nullptr) {
  for (size_t at = 0; at < bytes; at += kPiece) {
    kernels::ReduceTask task;
    task.type = DataType::float32;
    task.sources = second == nullptr ? 1 : 2;
    task.destinations = 1;
    task.streamed = streams ? 1 : 0;
    task.count = std::min(kPiece, bytes - at) / sizeof(float);
    task.source[0] = from + at;
    if (second != nullptr) task.source[1] = second + at;
    task.destination[0] = to + at;
    kernels::reduce(task);
  }
}

/// Reading, writing, fetching and storing, at one working set: the first is known by what a second source
/// takes, and the others by what a copy takes with it.
void measureLevel(Side& side, int level, size_t cacheShare, CostParameters& found) {
  const auto at = static_cast<size_t>(level);
  const size_t half = std::min(static_cast<size_t>(algorithms::kWorkingSets[at]) / 2, kLargest) / (2 * kPage);
  const size_t bytes = half * 2 * kPage;
  const bool streams = writesPastCaches(static_cast<size_t>(algorithms::kWorkingSets[at]), cacheShare);
  const int tries = bytes < (1 << 20) ? 20 : bytes < kLargest ? 3 : 2;
  std::byte *in = side.input(), *out = side.output();
  const double megabytes = static_cast<double>(bytes) / kMB;
  const double copy = side.time(bytes, tries, [&] { move(out, in, bytes, streams); }) / megabytes;
  const double sum =
      side.time(bytes, tries, [&] { move(out, in, bytes / 2, streams, in + bytes / 2); }) / megabytes * 2;
  const double fetching =
      side.time(bytes, tries, [&] { move(out, side.theirInput(), bytes, streams); }) / megabytes;
  const auto storingBy = [&](bool past) {
    const auto store = [&] { move(side.theirOutput(), in, bytes, past); };
    return side.time(bytes, tries, store, bytes) / megabytes;
  };
  double storing = storingBy(streams);
  if (!streams) storing = std::min(storing, storingBy(true));  // as WayChoice has it
  const double least = copy / 10, read = std::clamp(sum - copy, least, copy / 2), write = copy - read;
  auto set = [&](CostTerm first, double value) {
    found.values[static_cast<size_t>(first) + at] = std::max(value, least);
  };
  set(CostTerm::read, read);
  set(CostTerm::write, write);
  set(CostTerm::fetch, fetching - write);
  set(CostTerm::store, storing - read);
}

/// How often this thread had to leave its processor to another one.
long switchesOfThisThread() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}

/// By messages that go both ways: each side writes where it has read (program/exchange_areas.h). They are
/// streamed if that takes less, as WayChoice has it.
void measureSlots(Side& side, CostParameters& found) {
  constexpr double kMegabytes = static_cast<double>(kSlots) / kMB;
  auto pieces = [](auto&& piece) {
    for (size_t at = 0; at < kSlots; at += kPiece) piece(at);
  };
  double into = 1e30, outOf = 1e30;
  for (const bool streams : {false, true}) {
    double its = 1e30, theirs = 1e30;
    std::byte *mine = side.slots(), *other = side.theirSlots();
    for (int round = 0; round < 20; ++round) {
      its = std::min(its, side.time(kPiece, 1, [&] {
        pieces([&](size_t at) { move(mine + at, side.input(), kPiece, streams); });
      }));
      theirs = std::min(theirs, side.time(0, 1, [&] {
        pieces([&](size_t at) { move(side.output(), other + at, kPiece, false); });
      }));
      std::swap(mine, other);
    }
    if (its + theirs < into + outOf) into = its, outOf = theirs;
  }
  found[CostTerm::slotWrite] = std::max(into / kMegabytes - found[CostTerm::read], into / kMegabytes / 10);
  found[CostTerm::slotRead] = std::max(outOf / kMegabytes - found[CostTerm::write], outOf / kMegabytes / 10);
}

void measureAll(Side& side, size_t cacheShare, CostParameters& found) {
  found[CostTerm::notice] = side.notice();
  constexpr int kLevels = algorithms::kMemoryLevels;
  for (int level = 0; level + 1 < kLevels; ++level) measureLevel(side, level, cacheShare, found);
  // What is larger than the caches takes the same, however large it is; what was measured last may still have
  // been in large ones.
  const bool beyond = 2 * 2 * kLargest > 3 * cacheShare;
  for (const CostTerm first : {CostTerm::read, CostTerm::write, CostTerm::fetch, CostTerm::store}) {
    const auto last = static_cast<size_t>(first) + kLevels - 1;
    const double measured = found.values[last - 1];
    found.values[last] = beyond ? measured : std::max(measured, found.values[last]);
  }
  measureSlots(side, found);
}

/// What one of the two threads does, on its processor.
void work(Common& common, int me, int processor, size_t cacheShare, CostParameters& found) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(processor), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) common.errors[me] = errno;
  Side side(common, me);
  if (common.errors[0] != 0 || common.errors[1] != 0) return;
  const long before = switchesOfThisThread();
  measureAll(side, cacheShare, found);
  common.switches[me] = switchesOfThisThread() - before;
}

}  // namespace

std::optional<ProcessorPair> processorsOf(const std::vector<int>& allowed, const std::vector<int>& online,
                                          const std::vector<int>& threadsOfTheFirst) {
  if (allowed.empty()) return std::nullopt;
  const int first = allowed.front();
  std::optional<ProcessorPair> found;
  for (const std::vector<int>* processors : {&allowed, &online}) {
    for (const int other : *processors) {
      if (other == first) continue;
      if (std::ranges::count(threadsOfTheFirst, other) == 0) return ProcessorPair{first, other};
      if (!found) found = ProcessorPair{first, other};
    }
  }
  return found;
}

Result<CostParameters> measureSpeeds(ProcessorPair processors, size_t cacheShare,
                                     const CostParameters& defaults) {
  Common common;
  if (!common.pages.ok())
    return Status::fromErrno(errno, "%zu MiB of memory to measure with could not be had", 2 * kSide >> 20);
  CostParameters found = defaults, same = defaults;  // both sides find the same
  auto second = startThread("eccl-speeds", [&] { work(common, 1, processors.second, cacheShare, same); });
  if (!second.ok()) return second.status();
  auto first = startThread("eccl-speeds", [&] { work(common, 0, processors.first, cacheShare, found); });
  if (!first.ok()) {
    common.errors[0] = EAGAIN;
    Side absent(common, 0);  // the second waits for it
    second->join();
    return first.status();
  }
  first->join();
  second->join();
  const int on[] = {processors.first, processors.second};
  for (const int me : {0, 1})
    if (common.errors[me] != 0)
      return Status::fromErrno(common.errors[me], "processor %d, to measure on, may not be used", on[me]);
  if (common.stop)
    return Status::error(Code::system, "the processors are busy with something else: %lld ms were not enough",
                         static_cast<long long>(kTime.count()));
  for (const int me : {0, 1})
    if (common.switches[me] > kMostSwitches)
      return Status::error(Code::system, "processor %d is busy with something else (%ld times in a moment)",
                           on[me], common.switches[me]);
  return found;
}

}  // namespace eccl::runtime
