#include "runtime/cuda/staged_run.h"

#include <algorithm>

namespace eccl::runtime::cuda {
namespace {

/// A group is so many bytes, so that copies run at nearly their full rate (NVIDIA H100, November 2026: 54 GB/s
/// from 4 MiB, 50 at 1 MiB, 41 at 256 KiB; perf/results/gpu.md), and what overlaps is fine enough.
constexpr size_t kGroupBytes = 4 << 20;
constexpr uint64_t kGroupsPerBell = 4;

uint64_t elementsUpTo(uint64_t length, uint64_t tile, uint64_t tiles) {
  return tiles > length / tile ? length : tiles * tile;
}

/// Tiles that the longest block of a space needs.
uint64_t tilesOf(const PlanView& plan, Space space) {
  const BlockMap& map = plan.maps[static_cast<int>(space)];
  uint64_t most = 0;
  for (int32_t i = 0; i < map.number; ++i)
    most = std::max(most, plan.partition.tiles(plan.extent(space, map.block(i)).elements));
  return most;
}

}  // namespace

void forPieces(const PlanView& plan, Space space, uint64_t from, uint64_t to,
               const std::function<void(size_t, size_t)>& visit) {
  const BlockMap& map = plan.maps[static_cast<int>(space)];
  const Partition& partition = plan.partition;
  size_t begin = 0, end = 0;
  for (int32_t i = 0; i < map.number; ++i) {
    const BlockExtent block = plan.extent(space, map.block(i));
    for (int32_t part = 0; part < partition.parts; ++part) {
      const uint64_t first = partition.partBegin(block.elements, part),
                     length = partition.partBegin(block.elements, part + 1) - first;
      const size_t pieceBegin =
          (block.offset + first + elementsUpTo(length, partition.tile, from)) * plan.elementBytes;
      const size_t pieceEnd =
          (block.offset + first + elementsUpTo(length, partition.tile, to)) * plan.elementBytes;
      if (pieceBegin == pieceEnd) continue;
      if (pieceBegin != end) {
        if (begin != end) visit(begin, end);
        begin = pieceBegin;
      }
      end = pieceEnd;
    }
  }
  if (begin != end) visit(begin, end);
}

StagedRun::~StagedRun() {
  // A graph that is gone has nothing outstanding.
  if (captured_ != nullptr) {
    for (Word* word : {&arrived_, &passed_})
      if (word->host != nullptr) __atomic_store_n(word->host, word->value, __ATOMIC_RELEASE);
  }
  // After a failure half-way nobody can tell when the stream is through with the twins: they stay taken.
  if (!inUse_) {
    for (const Pinned& each : twins_) gpu_.giveBack(each, over_);
  }
  for (const Word& each : {arrived_, passed_, over_}) gpu_.giveBack(each);
  for (const Word& each : also_) gpu_.giveBack(each);
}

void StagedRun::beCaptured(Work& work, std::shared_ptr<StagedGraphs> graphs, size_t place) {
  captured_ = &work;
  graphs_ = std::move(graphs);
  key_ = {CallOrder::lineOf(work), place, false};
}

Status StagedRun::prepare(const Work& work) {
  const PlanView& plan = *work.view.plan;
  uint64_t tiles = plan.tiles;
  if (plan.streams) tiles = std::max(tilesOf(plan, Space::input), tilesOf(plan, Space::output));
  size_t bytes = 0;
  for (Side* side : {&input_, &output_}) {
    side->user = work.view.buffers[static_cast<int>(side->space)];
    if (side->user == nullptr) continue;
    side->begin = SIZE_MAX;
    forPieces(plan, side->space, 0, tiles, [&](size_t begin, size_t end) {
      side->begin = std::min(side->begin, begin);
      side->end = std::max(side->end, end);
      bytes += end - begin;
    });
    if (side->end == 0) side->begin = 0;
  }
  for (Word* word : {&arrived_, &passed_, &over_}) { ECCL_ASSIGN(*word, gpu_.takeWord()); }
  arrivedAtFirst_ = arrived_.value;
  passedAtFirst_ = passed_.value;
  if (bytes == 0) return {};
  const size_t tileBytes = (bytes + tiles - 1) / tiles;
  tilesPerGroup_ = std::max<uint64_t>(1, kGroupBytes / tileBytes);
  groups_ = (tiles + tilesPerGroup_ - 1) / tilesPerGroup_;
  return provideTwins();
}

Status StagedRun::arrive(const Work& work, NativeStream stream, BellStream& bell) {
  const uint64_t marks = std::max<uint64_t>(1, groups_);
  inUse_ = true;
  for (uint64_t group = 0; group < marks; ++group) {
    if (groups_ > 0) ECCL_TRY(copyGroup(*work.view.plan, input_, group, stream));
    ECCL_TRY(write(stream, arrived_));
    // While groups come one after the other the driver does not sleep.
    if (group % kGroupsPerBell != 0 && group + 1 != marks) continue;
    if (captured_ == nullptr)
      ECCL_TRY(bell.ringAt(arrived_, arrived_.value));
    else if (group == 0)
      ECCL_TRY(callBack(stream, [](void* run) {
        static_cast<StagedRun*>(run)->graphs_->begin(*static_cast<StagedRun*>(run));
      }));
    else
      ECCL_TRY(callBack(stream, [](void* run) { static_cast<StagedRun*>(run)->graphs_->ring(); }));
  }
  return {};
}

/// The graph has what is called back as long as it runs.
Status StagedRun::callBack(NativeStream stream, HostFunction function) {
  return gpu_.driver().check(gpu_.driver().cuLaunchHostFunc(stream, function, this), "cuLaunchHostFunc",
                             "in the call's stream %p of %s", static_cast<void*>(stream), gpu_.name().c_str());
}

Status StagedRun::depart(const Work& work, NativeStream stream) {
  passed_.value += std::max<uint64_t>(1, groups_);
  for (uint64_t group = 0; group < groups_; ++group) {
    ECCL_TRY(wait(stream, passed_, passedAtFirst_ + group + 1));
    ECCL_TRY(copyGroup(*work.view.plan, output_, group, stream));
  }
  if (groups_ == 0) ECCL_TRY(wait(stream, passed_, passed_.value));
  ECCL_TRY(captured_ != nullptr ? set(stream, passed_, passedAtFirst_) : write(stream, over_));
  if (captured_ == nullptr && groups_ > 0) gpu_.noteStaged(stream, over_);
  inUse_ = false;
  return {};
}

Status StagedRun::arriveAlso(NativeStream stream, BellStream& bell) {
  ECCL_ASSIGN(const Word word, gpu_.takeWord());
  also_.push_back(word);
  ECCL_TRY(write(stream, also_.back()));
  return bell.ringAt(word, also_.back().value);
}

Status StagedRun::departAlso(NativeStream stream) {
  return wait(stream, over_, over_.value);
}

void StagedRun::begin(Work& work) {
  if (groups_ > 0) {
    for (const Side& side : {input_, output_}) work.view.buffers[static_cast<int>(side.space)] = side.twin;
    for (size_t i = 0; i < std::size(twins_); ++i) {
      const Pinned& its = capturedTwins_[i] != nullptr ? *capturedTwins_[i] : twins_[i];
      work.own[i] = {its.memory, its.bytes};
    }
  }
  work.view.readyTiles = 0;
}

void StagedRun::advance(Work& work) {
  if (work.view.readyTiles != UINT64_MAX) {
    for (const Word& word : also_) {
      if (!word.reached(word.value)) return;
    }
    const bool all = arrived_.reached(arrived_.value);
    work.view.readyTiles = all ? UINT64_MAX : arrived_.since(arrivedAtFirst_) * tilesPerGroup_;
  }
  uint64_t done = UINT64_MAX;  // tiles
  for (size_t lane = 0; lane < work.laneCount; ++lane)
    done = std::min(done, work.view.lanes[lane].finished ? UINT64_MAX : work.view.lanes[lane].tile);
  uint64_t to = done == UINT64_MAX ? passed_.value : passedAtFirst_ + std::min(groups_, done / tilesPerGroup_);
  // Then the graph writes into the twin again. Peers may still read there until the Run has ended.
  if (captured_ != nullptr) to = std::min(to, passed_.value - 1);
  if (!passed_.reached(to)) __atomic_store_n(passed_.host, to, __ATOMIC_RELEASE);
}

void StagedRun::letGo() {
  if (passed_.host == nullptr) return;
  if (captured_ != nullptr) __atomic_store_n(arrived_.host, arrivedAtFirst_, __ATOMIC_RELEASE);
  __atomic_store_n(passed_.host, passed_.value, __ATOMIC_RELEASE);
}

/// In place is in place on the host too, so that nothing is copied there that was not. Where a buffer begins in
/// its cache line stays as it is.
Status StagedRun::provideTwins() {
  constexpr size_t kLine = 64;
  const auto provide = [&](bool output, std::byte* user, size_t begin, size_t end) -> Result<std::byte*> {
    const size_t skip = reinterpret_cast<uintptr_t>(user + begin) % kLine, most = skip + (end - begin);
    if (captured_ == nullptr) {
      ECCL_ASSIGN(twins_[output], gpu_.pin(most));
      return twins_[output].memory + skip;
    }
    std::get<bool>(key_) = output;
    ECCL_ASSIGN(capturedTwins_[output], graphs_->twin(key_, most));
    return capturedTwins_[output]->memory + skip;
  };
  const auto at = [](const Side& side, size_t offset) {
    return reinterpret_cast<uintptr_t>(side.user) + offset;
  };
  const auto twinOf = [](std::byte* first, size_t begin) {  // as numbers: it may lie before the memory
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(first) - begin);
  };
  const bool overlap = at(input_, input_.begin) < at(output_, output_.end) &&
                       at(output_, output_.begin) < at(input_, input_.end);
  if (!overlap) {
    for (Side* side : {&input_, &output_}) {
      if (side->end == 0) continue;
      ECCL_ASSIGN(std::byte * first, provide(side == &output_, side->user, side->begin, side->end));
      side->twin = twinOf(first, side->begin);
    }
    return {};
  }
  const uintptr_t low = std::min(at(input_, input_.begin), at(output_, output_.begin)),
                  high = std::max(at(input_, input_.end), at(output_, output_.end));
  ECCL_ASSIGN(std::byte * first, provide(false, reinterpret_cast<std::byte*>(low), 0, high - low));
  for (Side* side : {&input_, &output_})
    side->twin = twinOf(first, low - reinterpret_cast<uintptr_t>(side->user));
  return {};
}

Status StagedRun::copyGroup(const PlanView& plan, const Side& side, uint64_t group, NativeStream stream) {
  if (side.end == 0) return {};
  Status status;
  forPieces(
      plan, side.space, group * tilesPerGroup_, (group + 1) * tilesPerGroup_, [&](size_t begin, size_t end) {
        std::byte *const user = side.user + begin, *const twin = side.twin + begin;
        std::byte *const from = side.space == Space::input ? user : twin, *const to =
                                                                              from == user ? twin : user;
        if (!status.ok()) return;
        status = gpu_.driver().check(
            gpu_.driver().cuMemcpyAsync(addressOf(to), addressOf(from), end - begin, stream), "cuMemcpyAsync",
            "of %zu bytes from %p to %p in the call's stream %p of %s", end - begin, static_cast<void*>(from),
            static_cast<void*>(to), static_cast<void*>(stream), gpu_.name().c_str());
      });
  return status;
}

Status StagedRun::write(NativeStream stream, Word& word) {
  ECCL_TRY(set(stream, word, word.value + 1));
  ++word.value;
  return {};
}

Status StagedRun::set(NativeStream stream, const Word& word, uint64_t value) {
  return gpu_.driver().check(gpu_.driver().cuStreamWriteValue64(stream, word.device, value, 0),
                             "cuStreamWriteValue64", "in the call's stream %p of %s",
                             static_cast<void*>(stream), gpu_.name().c_str());
}

Status StagedRun::wait(NativeStream stream, const Word& word, uint64_t value) {
  return gpu_.driver().check(gpu_.driver().cuStreamWaitValue64(stream, word.device, value, kWaitAtLeast),
                             "cuStreamWaitValue64", "in the call's stream %p of %s", static_cast<void*>(stream),
                             gpu_.name().c_str());
}

}  // namespace eccl::runtime::cuda
