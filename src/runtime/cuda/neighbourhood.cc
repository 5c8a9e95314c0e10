#include "runtime/cuda/neighbourhood.h"

#include <algorithm>

#include "base/atomics.h"
#include "base/system.h"

namespace eccl::runtime::cuda {
namespace {

/// A rank that has its GPU to itself leaves the rest of it to the caller's kernels. So many blocks passed 300
/// GB/s by slots and 440 directly, within one GPU (NVIDIA H100, November 2026: perf/results/gpu.md). Between
/// GPUs it was not measured.
constexpr uint32_t kBlocksOfRank = 32;
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

}  // namespace

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
  if (lost_) return;
  for (auto& [id, ring] : rings_)
    for (auto& [gpu, address, bytes] : ring.memory) gpu->giveBack(address, bytes);
  for (auto& [gpu, page] : pages_) gpu->giveBack(page, {});
}

bool Neighbourhood::complete(std::string* why) {
  std::lock_guard lock(mutex_);
  if (!missing_) missing_ = whatIsMissing();
  *why = *missing_;
  return missing_->empty();
}

/// Under the mutex.
std::string Neighbourhood::whatIsMissing() {
  blocks_ = room_ = UINT32_MAX;
  for (Gpu* gpu : gpus_) {
    if (gpu == nullptr) return "not all ranks are threads of this process with CUDA memory";
    const auto here = static_cast<uint32_t>(std::count(gpus_.begin(), gpus_.end(), gpu));
    room_ = std::min(room_, gpu->multiprocessors() / here);
    blocks_ = std::min(blocks_, here == 1 ? std::min(room_, kBlocksOfRank) : room_);
    for (Gpu* other : gpus_) {
      int can = 1;
      if (other == nullptr || other == gpu) continue;
      const DriverCode code = gpu->driver().cuDeviceCanAccessPeer(&can, gpu->ordinal(), other->ordinal());
      if (code != kSuccess || can == 0) return gpu->name() + " does not reach the memory of " + other->name();
    }
    // All kernels now: to load one later may have to wait for those that run.
    const Entered entered(gpu->driver(), gpu->context());
    for (int type = 0; entered.status().ok() && type < kDataTypes; ++type) {
      const auto kernel = gpu->kernel(static_cast<DataType>(type));
      if (!kernel.ok()) return kernel.status().message();
    }
    if (!entered.status().ok()) return entered.status().message();
  }
  return blocks_ > 0 ? "" : "there are more ranks on a GPU than it has multiprocessors";
}

Status Neighbourhood::reach(int rank) {
  Gpu& own = *gpus_[static_cast<size_t>(rank)];
  for (Gpu* other : gpus_) {
    if (other == &own) continue;
    const DriverCode code = own.driver().cuCtxEnablePeerAccess(other->context(), 0);
    if (code == kPeerAccessAlreadyEnabled) continue;
    ECCL_TRY(own.driver().check(code, "cuCtxEnablePeerAccess", "of %s to %s", own.name().c_str(),
                                other->name().c_str()));
  }
  std::lock_guard lock(mutex_);
  ECCL_ASSIGN(const Page lines, page(own));
  auto* const first = reinterpret_cast<lanes::AbortLine*>(lines.host);
  std::lock_guard aborting(aborting_);
  std::fill_n(first, lanes::kAbortLines, lanes::AbortLine{aborted_ ? 1u : 0u});
  aborts_[static_cast<size_t>(rank)] = {first, lines.device};
  return {};
}

/// Under the mutex.
Result<Neighbourhood::Page> Neighbourhood::page(Gpu& gpu) {
  ECCL_ASSIGN(const Pinned page, gpu.pin(kPageBytes));
  pages_.emplace_back(&gpu, page);
  Address device = 0;
  ECCL_TRY(gpu.driver().check(gpu.driver().cuMemHostGetDevicePointer(&device, page.memory, 0),
                              "cuMemHostGetDevicePointer", "on %s", gpu.name().c_str()));
  return Page{page.memory, device};
}

void Neighbourhood::abort() {
  std::lock_guard lock(aborting_);
  if (aborted_) return;
  aborted_ = true;
  System& system = System::real();  // whoever has GPUs does
  abortedAt_ = system.now();
  for (const Abort& rank : aborts_) {
    for (uint32_t i = 0; rank.host != nullptr && i < lanes::kAbortLines; ++i)
      storeRelease(&rank.host[i].word, 1u);
  }
}

Result<std::vector<Neighbourhood::RingStrip>> Neighbourhood::ring(const RingId& id, uint32_t width) {
  std::lock_guard lock(mutex_);
  Ring& ring = rings_[id];
  if (ring.strips.size() < width) {
    const size_t more = width - ring.strips.size();
    const auto take = [&](int rank, size_t bytes) -> Result<Address> {
      Gpu& gpu = *gpus_[static_cast<size_t>(rank)];
      const Entered entered(gpu.driver(), gpu.context());
      ECCL_TRY(entered.status());
      ECCL_ASSIGN(const Address address, gpu.take(bytes));
      ring.memory.emplace_back(&gpu, address, bytes);
      return address;
    };
    ECCL_ASSIGN(const Address receivers, take(std::get<1>(id), more * sizeof(lanes::AtReceiver)));
    ECCL_ASSIGN(const Address senders, take(std::get<0>(id), more * sizeof(lanes::AtSender)));
    for (size_t i = 0; i < more; ++i)
      ring.strips.push_back({reinterpret_cast<lanes::AtReceiver*>(receivers) + i,
                             reinterpret_cast<lanes::AtSender*>(senders) + i});
  }
  return std::vector<RingStrip>(ring.strips.begin(), ring.strips.begin() + width);
}

Result<ReportPlace> Neighbourhood::begin(const Entry& entry) {
  ReportPlace place;
  std::lock_guard lock(mutex_);
  Gpu& gpu = *gpus_[static_cast<size_t>(entry.rank)];
  for (const auto& [report, other] : outstanding_) {
    // Number 0 waits for one rank alone, which may be through with it.
    if (entry.number == 0 || other.rank == entry.rank || other.launch == entry.launch ||
        other.number < entry.number || gpus_[static_cast<size_t>(other.rank)] != &gpu ||
        !other.queue.holdsUp(entry.queue) || loadAcquire(&report->over) != 0)
      continue;
    return Status::error(
        eccl::Code::invalidUsage,
        "rank %d makes its collective number %llu behind that of rank %d, which waits for it: the "
        "stream %p of %s holds up the stream %p. Make both calls in one group, or in streams of "
        "their own that are non-blocking",
        entry.rank, static_cast<unsigned long long>(entry.number), other.rank,
        static_cast<void*>(other.queue.stream), gpu.name().c_str(), static_cast<void*>(entry.queue.stream));
  }
  if (reports_.empty()) {
    ECCL_ASSIGN(const Page more, page(gpu));
    for (size_t at = 0; at + sizeof(lanes::Report) <= kPageBytes; at += sizeof(lanes::Report))
      reports_.push_back({reinterpret_cast<lanes::Report*>(more.host + at), more.device + at});
  }
  place = reports_.back();
  reports_.pop_back();
  *place.host = lanes::Report{};
  place.host->awaited = -1;
  outstanding_.emplace(place.host, entry);
  return place;
}

void Neighbourhood::end(const ReportPlace& report) {
  const auto over = [&] { return loadAcquire(&report.host->over) != 0; };
  // Its Run is given up: the communicator has failed, perhaps before the engine had the Run.
  if (!over()) {
    abort();
    await(over);
  }
  std::lock_guard lock(mutex_);
  outstanding_.erase(report.host);
  if (over())
    reports_.push_back(report);
  else
    lost_ = true;
}

void Neighbourhood::quiesce() {
  await([this] {
    std::lock_guard lock(mutex_);
    return std::all_of(outstanding_.begin(), outstanding_.end(),
                       [](const auto& each) { return loadAcquire(&each.first->over) != 0; });
  });
}

void Neighbourhood::await(const std::function<bool()>& over) const {
  System& system = System::real();
  while (!over() && system.now() < abortedAt_.load() + kAbortLimit) system.yield();
}

}  // namespace eccl::runtime::cuda
