#include "runtime/cuda/neighbourhood.h"

#include <algorithm>
#include <cstring>

#include "base/atomics.h"
#include "base/log.h"
#include "base/system.h"

namespace eccl::runtime::cuda {
namespace {

/// A rank that has its GPU to itself leaves room for the caller's kernels. Half as many blocks of twice the
/// threads passed 300 GB/s by slots and 440 directly, within one GPU (NVIDIA H100, November 2026:
/// perf/results/gpu.md). Between GPUs it was not measured.
constexpr uint32_t kBlocksOfRank = 64;
/// From an abort until no kernel that had begun is there any more; they should take much less.
constexpr Duration kAbortLimit = std::chrono::milliseconds(100);
/// Host memory for reports, or for one rank's abort lines.
constexpr size_t kPageBytes = 1 << 16;
static_assert(lanes::kAbortLines * sizeof(lanes::AbortLine) <= kPageBytes);

struct Known {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Neighbourhood>> all;
};
Known& known() {
  static auto* const made = new Known;
  return *made;
}

bool operator==(const Uuid& a, const Uuid& b) {
  return std::memcmp(a.bytes, b.bytes, sizeof a.bytes) == 0;
}

}  // namespace

Neighbourhood::Neighbourhood(uint64_t communicator, int ranks)
    : communicator_(communicator),
      gpus_(static_cast<size_t>(ranks)),
      aborts_(gpus_.size()),
      rings_(gpus_, System::real()) {}

std::shared_ptr<Neighbourhood> Neighbourhood::of(uint64_t communicator, int rank, int ranks, Gpu& gpu) {
  std::lock_guard lock(known().mutex);
  std::weak_ptr<Neighbourhood>& found = known().all[communicator];
  std::shared_ptr<Neighbourhood> its = found.lock();
  if (its == nullptr) {
    its.reset(new Neighbourhood(communicator, ranks));
    found = its;
  }
  std::lock_guard its_lock(its->mutex_);
  its->gpus_[static_cast<size_t>(rank)] = &gpu;
  return its;
}

Neighbourhood::~Neighbourhood() {
  {
    std::lock_guard lock(known().mutex);
    const auto found = known().all.find(communicator_);
    if (found != known().all.end() && found->second.expired()) known().all.erase(found);
  }
  if (lost_) {
    rings_.keep();
    return;
  }
  rings_.giveBack();
  for (auto& [gpu, page] : pages_) gpu->giveBack(page, {});
}

std::string Neighbourhood::introduce(int rank, bool descriptors) {
  Gpu& gpu = *gpus_[static_cast<size_t>(rank)];
  GpuIntroduction its{System::real().identity().bootId, thisProcess(), gpu.uuid(), gpu.multiprocessors(), {}};
  for (const LendBy by : kWaysToLend) {
    if (by == LendBy::descriptor && (!descriptors || !gpu.mappedMemory())) continue;
    if (const auto made = Loans::of(gpu, by).door(); made.ok())
      its.door(by) = *made;
    else
      ECCL_INFO("%s lends no memory to other processes by a %s: %s", gpu.name().c_str(), nameOf(by),
                made.status().message().c_str());
  }
  return its.write();
}

/// Under the mutex.
Status Neighbourhood::read(const Meeting& meeting) {
  if (!members_.empty()) return {};
  std::vector<GpuIntroduction> members;
  for (const std::string& text : meeting.introductions) {
    const auto said = text.empty() ? GpuIntroduction() : GpuIntroduction::read(text);
    if (!said)
      return Status::error(eccl::Code::remote,
                           "%s says of its GPU what cannot be read: is another version of ECCL there?",
                           meeting.describe(static_cast<int>(members.size())).c_str());
    members.push_back(*said);
  }
  members_ = std::move(members);
  relays_ = meeting.relays;
  return {};
}

Result<bool> Neighbourhood::meet(const Meeting& meeting, std::string* why) {
  const auto saysNothing = [](const std::string& text) { return text.empty(); };
  const auto& texts = meeting.introductions;
  std::string missing;
  bool all = true;
  {
    std::lock_guard lock(mutex_);
    ECCL_TRY(read(meeting));
    const auto silent = std::find_if(texts.begin(), texts.end(), saysNothing);
    const auto elsewhere = std::find_if(members_.begin(), members_.end(), [&](const GpuIntroduction& each) {
      return each.boot != members_[0].boot;
    });
    if (silent != texts.end()) {
      *why =
          format("%s has no CUDA memory", meeting.describe(static_cast<int>(silent - texts.begin())).c_str());
      return false;
    }
    if (elsewhere != members_.end() && relays_ == Relays::none)
      return *why = "the ranks are on several hosts, and ECCL_CUDA_RELAY is 0", false;
    if (!missing_) missing_ = whatIsMissing();
    *why = missing = *missing_;
    for (const GpuIntroduction& each : members_) all &= each.process == members_[0].process;
  }
  if (all) return missing.empty();
  // Each process sees something else.
  for (const LendBy by : kWaysToLend) {
    ECCL_ASSIGN(const std::vector<std::string> said,
                meeting.gather(missing.empty() ? whatIsClosed(by, meeting) : missing));
    const auto misses = std::find_if_not(said.begin(), said.end(), saysNothing);
    if (misses == said.end()) return rings_.lendBy(by), true;
    *why = format("%s: %s", meeting.describe(static_cast<int>(misses - said.begin())).c_str(), misses->c_str());
    ECCL_INFO(
        "these ranks do not lend GPUs' memory by %ss: %s%s", nameOf(by), why->c_str(),
        by == LendBy::descriptor ? ". Set ECCL_CUMEM_ENABLE=0 to have ecclMemAlloc's lent by handles" : "");
  }
  return false;
}

/// Why memory of other processes is not reached from this rank's GPU that way; empty: it is.
std::string Neighbourhood::whatIsClosed(LendBy by, const Meeting& meeting) {
  Gpu& gpu = *gpus_[static_cast<size_t>(meeting.rank)];
  const Entered entered(gpu.driver(), gpu.context());
  if (!entered.status().ok()) return entered.status().message();
  for (size_t rank = 0; rank < gpus_.size(); ++rank) {
    const auto other = static_cast<int>(rank);
    if (gpus_[rank] != nullptr || relayed(meeting.rank, other)) continue;
    const Status reached = Loans::of(gpu, by).tryDoor(members_[rank].door(by), fetchFrom(other, meeting));
    if (!reached.ok())
      return format("%s does not reach the memory of %s: %s", gpu.name().c_str(),
                    meeting.describe(other).c_str(), reached.message().c_str());
  }
  return {};
}

uint32_t Neighbourhood::sharers(int rank) const {
  const Uuid& gpu = members_[static_cast<size_t>(rank)].gpu;
  return static_cast<uint32_t>(std::count_if(members_.begin(), members_.end(),
                                             [&](const GpuIntroduction& each) { return each.gpu == gpu; }));
}

int Neighbourhood::place(int rank) const {
  const auto its = gpus_.begin() + rank;
  return static_cast<int>(std::count(gpus_.begin(), its, *its));
}

/// In this process. Under the mutex.
std::string Neighbourhood::whatIsMissing() {
  blocks_ = room_ = Rings::kMostStrips;
  for (const GpuIntroduction& member : members_) {
    const uint32_t those = sharers(static_cast<int>(&member - members_.data()));
    room_ = std::min(room_, member.multiprocessors * lanes::kBlocksOfMultiprocessor / those);
    blocks_ = std::min(blocks_, those == 1 ? std::min(room_, kBlocksOfRank) : room_);
  }
  if (blocks_ == 0) return "there are more ranks on a GPU than it can run blocks at once";
  for (Gpu* gpu : gpus_) {
    if (gpu == nullptr) continue;
    std::string missing = whatIsMissing(*gpu);
    if (!missing.empty()) return missing;
  }
  return {};
}

/// For a rank on a GPU of this process.
std::string Neighbourhood::whatIsMissing(Gpu& gpu) const {
  const Entered entered(gpu.driver(), gpu.context());
  if (!entered.status().ok()) return entered.status().message();
  for (Gpu* const other : gpus_) {
    int can = 1;
    if (other == nullptr || other == &gpu) continue;
    const DriverCode code = gpu.driver().cuDeviceCanAccessPeer(&can, gpu.ordinal(), other->ordinal());
    if (code != kSuccess || can == 0) return gpu.name() + " does not reach the memory of " + other->name();
  }
  // All kernels now: to load one later may have to wait for those that run.
  for (int type = 0; type < kDataTypes; ++type) {
    const auto kernel = gpu.kernel(static_cast<DataType>(type));
    if (!kernel.ok()) return kernel.status().message();
  }
  return {};
}

Status Neighbourhood::reach(int rank) {
  Gpu& own = *gpus_[static_cast<size_t>(rank)];
  for (Gpu* other : gpus_) {
    if (other == nullptr || other == &own) continue;
    const DriverCode code = own.driver().cuCtxEnablePeerAccess(other->context(), 0);
    if (code == kPeerAccessAlreadyEnabled) continue;
    ECCL_TRY(own.driver().check(code, "cuCtxEnablePeerAccess", "of %s to %s", own.name().c_str(),
                                other->name().c_str()));
  }
  ECCL_ASSIGN(const Page lines, page(own));
  auto* const first = reinterpret_cast<lanes::AbortLine*>(lines.host);
  std::lock_guard aborting(aborting_);
  std::fill_n(first, lanes::kAbortLines, lanes::AbortLine{aborted_ ? 1u : 0u});
  aborts_[static_cast<size_t>(rank)] = {first, lines.device};
  return {};
}

/// Without the mutex, which engines take, too: the driver may wait for a stream that waits for an engine.
Result<Neighbourhood::Page> Neighbourhood::page(Gpu& gpu) {
  ECCL_ASSIGN(const Pinned page, gpu.pin(kPageBytes));
  {
    std::lock_guard lock(mutex_);
    pages_.emplace_back(&gpu, page);
  }
  Address device = 0;
  ECCL_TRY(gpu.driver().check(gpu.driver().cuMemHostGetDevicePointer(&device, page.memory, 0),
                              "cuMemHostGetDevicePointer", "on %s", gpu.name().c_str()));
  return Page{page.memory, device};
}

void Neighbourhood::Abort::raise() {
  for (uint32_t i = 0; host != nullptr && i < lanes::kAbortLines; ++i) storeRelease(&host[i].word, 1u);
}

void Neighbourhood::leave(int rank) {
  std::lock_guard lock(aborting_);
  aborts_[static_cast<size_t>(rank)].raise();
}

void Neighbourhood::abort() {
  {
    std::lock_guard lock(aborting_);
    if (aborted_) return;
    aborted_ = true;
    abortedAt_ = System::real().now();
    for (Abort& rank : aborts_) rank.raise();
  }
  rings_.abort();
}

Result<ReportPlace> Neighbourhood::begin(const Entry& entry) {
  std::unique_lock lock(mutex_);
  Gpu& gpu = *gpus_[static_cast<size_t>(entry.rank)];
  while (reports_.empty()) {
    lock.unlock();
    ECCL_ASSIGN(const Page more, page(gpu));
    lock.lock();
    for (size_t at = 0; at + sizeof(lanes::Report) <= kPageBytes; at += sizeof(lanes::Report))
      reports_.push_back({reinterpret_cast<lanes::Report*>(more.host + at), more.device + at});
  }
  for (const auto& [report, other] : outstanding_) {
    const size_t waitsFrom =
        near(other.rank, entry.rank) ? lanes::kDirectBytes : lanes::kSlots * lanes::kSlotBytes + 1;
    if (other.rank == entry.rank || other.launch == entry.launch || !other.waitsFor(entry, waitsFrom) ||
        gpus_[static_cast<size_t>(other.rank)] != &gpu || !other.queue.holdsUp(entry.queue) ||
        loadAcquire(&report->over) != 0)
      continue;
    const auto nameOf = [](const Entry& one) {
      return one.peer < 0 ? "collective" : one.sends ? "Send" : "Recv";
    };
    return Status::error(
        eccl::Code::invalidUsage,
        "rank %d makes its %s number %llu behind the %s of rank %d, which waits for it: the stream %p of %s "
        "holds up the stream %p. Make both calls in one group, or in streams of their own that are "
        "non-blocking",
        entry.rank, nameOf(entry), static_cast<unsigned long long>(entry.number), nameOf(other), other.rank,
        static_cast<void*>(other.queue.stream), gpu.name().c_str(), static_cast<void*>(entry.queue.stream));
  }
  const ReportPlace place = reports_.back();
  reports_.pop_back();
  *place.host = lanes::Report{};
  place.host->awaited = -1;
  outstanding_.emplace(place.host, entry);
  return place;
}

void Neighbourhood::end(const ReportPlace& report) {
  std::unique_lock lock(mutex_);
  const bool captured = outstanding_.at(report.host).queue.capture.goesOn();
  const auto over = [&] { return captured || loadAcquire(&report.host->over) != 0; };
  // Its Run is given up: the communicator has failed, perhaps before the engine had the Run.
  if (!over()) {
    lock.unlock();
    abort();
    await(over);
    lock.lock();
  }
  outstanding_.erase(report.host);
  if (over())
    reports_.push_back(report);
  else
    lost_ = true;
}

void Neighbourhood::quiesce(bool others) {
  await([this, others] {
    if (others) return false;
    std::lock_guard lock(mutex_);
    return std::all_of(outstanding_.begin(), outstanding_.end(), [](const auto& each) {
      return !each.second.queue.capture.goesOn() && loadAcquire(&each.first->over) != 0;
    });
  });
}

void Neighbourhood::await(const std::function<bool()>& over) const {
  System& system = System::real();
  while (!over() && system.now() < abortedAt_.load() + kAbortLimit) system.yield();
}

}  // namespace eccl::runtime::cuda
