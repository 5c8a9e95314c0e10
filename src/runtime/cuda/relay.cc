#include "runtime/cuda/relay.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <utility>

#include "base/log.h"

namespace eccl::runtime::cuda {
namespace {

constexpr size_t kReceiverBytes = sizeof(lanes::AtReceiver),
                 kStripBytes = kReceiverBytes + sizeof(lanes::AtSender),
                 kSlotsBytes = size_t{lanes::kSlots} * lanes::kSlotBytes;
static_assert(kReceiverBytes % alignof(lanes::AtSender) == 0 && kStripBytes % alignof(lanes::AtReceiver) == 0);

/// Pinned memory, and where kernels find it.
struct PinnedHere {
  Pinned pinned;
  Address device = 0;
};
Result<PinnedHere> pinFor(Gpu& gpu, size_t bytes) {
  PinnedHere its;
  ECCL_ASSIGN(its.pinned, gpu.pin(bytes));
  const Status status =
      gpu.driver().check(gpu.driver().cuMemHostGetDevicePointer(&its.device, its.pinned.memory, 0),
                         "cuMemHostGetDevicePointer", "on %s", gpu.name().c_str());
  if (status.ok()) return its;
  gpu.giveBack(its.pinned, {});
  return status;
}

}  // namespace

Relay::~Relay() {
  for (const Pinned& each : memory_) gpu_.giveBack(each, {});
}

void Relay::keep() {
  memory_.clear();
  for (auto& each : blocks_) MappedBlock::keep(std::move(each));
}

Result<std::vector<Rings::RingStrip>> Relay::ring(const RingId& id, uint32_t width) {
  std::vector<Rings::RingStrip>& its = made_[id];
  if (its.size() < width) {
    // Without the lock, which the driver takes: CUDA's may wait for a kernel that waits for this rank.
    const size_t more = width - its.size();
    ECCL_ASSIGN(const PinnedHere here, pinFor(gpu_, more * kStripBytes));
    memory_.push_back(here.pinned);
    std::vector<New> made;
    for (size_t i = 0; i < more; ++i) {
      std::byte* const receiver = here.pinned.memory + i * kStripBytes;
      std::byte* const sender = receiver + kReceiverBytes;
      const Address device = here.device + i * kStripBytes;
      std::memset(receiver, 0, offsetof(lanes::AtReceiver, slots));
      std::memset(sender, 0, sizeof(lanes::AtSender));
      its.push_back({reinterpret_cast<lanes::AtReceiver*>(device),
                     reinterpret_cast<lanes::AtSender*>(device + kReceiverBytes)});
      RelayStrip strip;
      strip.receiver = reinterpret_cast<lanes::AtReceiver*>(receiver);
      strip.sender = reinterpret_cast<lanes::AtSender*>(sender);
      strip.memory = {here.pinned.memory, here.pinned.bytes};
      made.push_back({id, strip});
    }
    std::lock_guard lock(mutex_);
    new_.insert(new_.end(), made.begin(), made.end());
    anyNew_.store(true, std::memory_order_release);
  }
  return std::vector(its.begin(), its.begin() + width);
}

/// In the GPU. Error: why not. What devices write there, the GPU's kernels have to see when the host is told.
Result<Relay::Block> Relay::makeOnGpu(size_t bytes, bool sends) {
  if (!gpu_.mappedMemory() || gpu_.mappedMemory()->rdma == 0)
    return Status::error(Code::system, "RDMA devices do not get at its memory");
  if (!sends && !gpu_.ordersRdmaWrites())
    return Status::error(Code::system, "what RDMA devices write there its kernels may see too late");
  ECCL_ASSIGN(auto block, MappedBlock::make(gpu_, bytes, false));
  auto apart = std::make_shared<SlotsApart>();
  apart->memory = {reinterpret_cast<std::byte*>(block->begin()), block->bytes()};
  if (gpu_.exportsDmabufs()) { ECCL_ASSIGN(apart->dmabuf, block->dmabuf()); }
  blocks_.push_back(block);
  return Block{std::move(apart), block->begin()};
}

Result<Relay::Block> Relay::makePinned(size_t bytes) {
  ECCL_ASSIGN(const PinnedHere here, pinFor(gpu_, bytes));
  memory_.push_back(here.pinned);
  auto apart = std::make_shared<SlotsApart>();
  apart->memory = {here.pinned.memory, bytes};
  return Block{std::move(apart), here.device};
}

/// Not at `place`, if that cannot be, but where it is then.
Relay::Block Relay::make(size_t bytes, bool sends, SlotsPlace& place) {
  if (place == SlotsPlace::gpu) {
    if (!refused_[sends]) {
      Result<Block> onGpu = makeOnGpu(bytes, sends);
      if (onGpu.ok()) return onGpu.take();
      refuse(sends, onGpu.status().message());
    }
    place = sends ? SlotsPlace::nowhere : SlotsPlace::pinned;
  }
  if (place == SlotsPlace::pinned) {
    Result<Block> pinned = makePinned(bytes);
    if (pinned.ok()) return pinned.take();
    ECCL_INFO("messages that rank %d receives by RDMA are copied: %s", rank_,
              pinned.status().message().c_str());
    place = SlotsPlace::nowhere;
  }
  return {};
}

void Relay::refuse(bool sends, const std::string& why) {
  if (!std::exchange(refused_[sends], true))
    ECCL_INFO("messages that rank %d %s by RDMA pass through its host, not straight %s %s: %s", rank_,
              sends ? "sends" : "receives", sends ? "from" : "to", gpu_.name().c_str(), why.c_str());
}

/// Neither a kernel nor a device has ever known it.
void Relay::giveBack(const SlotsApart& apart) {
  std::erase_if(blocks_, [&](const auto& block) { return block->begin() == addressOf(apart.memory.base); });
  std::erase_if(memory_, [&](const Pinned& each) {
    if (each.memory != apart.memory.base) return false;
    gpu_.giveBack(each, {});
    return true;
  });
}

void Relay::goOn(bool dmabufs) {
  if (!anyWishes_.load(std::memory_order_relaxed)) return;
  std::vector<RelayLink::Wish> wishes;
  {
    std::lock_guard lock(mutex_);
    wishes.swap(wishes_);
    anyWishes_.store(false, std::memory_order_relaxed);
  }
  if (!dmabufs)
    for (const bool sends : {true, false}) refuse(sends, "ECCL_DMABUF_ENABLE is 0");
  std::set<std::shared_ptr<SlotsApart>> back;
  // Devices that get at some of a block get at all. So what one rank may write is in no block of another one.
  std::map<std::tuple<int, bool, SlotsPlace>, std::vector<const RelayLink::Wish*>> blocks;
  for (const RelayLink::Wish& wish : wishes) {
    if (wish.had != nullptr && back.insert(wish.had).second) {
      if (wish.place == SlotsPlace::pinned || sends(wish.id))
        refuse(sends(wish.id), "its memory is not registered with an RDMA device, as that says");
      if (!wish.had->known) giveBack(*wish.had);
    }
    blocks[{peerOf(wish.id), sends(wish.id), wish.place}].push_back(&wish);
  }
  std::vector<Answer> answers;
  for (const auto& [which, its] : blocks) {
    auto [peer, sending, place] = which;
    const Block block = make(its.size() * kSlotsBytes, sending, place);
    for (size_t i = 0; i < its.size(); ++i) {
      const size_t at = block.apart == nullptr ? 0 : i * kSlotsBytes;
      answers.push_back({its[i]->id, its[i]->strip, place, block.apart,
                         block.apart == nullptr ? nullptr : block.apart->memory.base + at, block.at + at});
    }
  }
  std::lock_guard lock(mutex_);
  std::ranges::move(answers, std::back_inserter(answers_));
  anyNew_.store(true, std::memory_order_release);
}

RelayLink& Relay::linkTo(int peer) {
  if (const auto link = links_.find(peer); link != links_.end()) return link->second;
  const auto connection = [&](int from, int to, int16_t tag) -> transport::Connection& {
    return *ways_.connection({from, to, 0, tag});
  };
  return links_
      .try_emplace(peer, rank_, peer, connection(rank_, peer, transport::kRelayTag),
                   connection(peer, rank_, transport::kRelayTag),
                   connection(rank_, peer, transport::kRelayedSlotsTag),
                   connection(peer, rank_, transport::kRelayedSlotsTag), ways_.usesMemory)
      .first->second;
}

void Relay::takeNew() {
  if (!anyNew_.load(std::memory_order_acquire)) return;
  std::vector<New> made;
  std::vector<Answer> answers;
  {
    std::lock_guard lock(mutex_);
    made.swap(new_);
    answers.swap(answers_);
    anyNew_.store(false, std::memory_order_relaxed);
  }
  for (const New& each : made) linkTo(peerOf(each.id)).add(each.id, each.strip);
  for (Answer& each : answers)
    linkTo(peerOf(each.id))
        .setApart(each.id, each.strip, each.place, std::move(each.apart), each.slots, each.slotsAt);
}

Result<bool> Relay::advance(bool ending, const std::function<void(int)>& moved, const Meeting& meeting) {
  takeNew();
  bool any = false;
  Status first;
  for (auto& [rank, link] : links_) {
    const Result<bool> its = link.advance(ending, ways_.hasLeft(rank), meeting);
    if (its.ok() && *its) moved(rank);
    any |= its.ok() && *its;
    // Of another rank there may be another cause.
    if (!its.ok() && (first.ok() || first.code() == eccl::Code::remote)) first = its.status();
    if (std::vector<RelayLink::Wish> wishes = link.takeWishes(); !wishes.empty()) {
      std::lock_guard lock(mutex_);
      std::ranges::move(wishes, std::back_inserter(wishes_));
      anyWishes_.store(true, std::memory_order_relaxed);
    }
  }
  if (!first.ok()) return first;
  return any;
}

std::vector<int> Relay::waitsFor() {
  takeNew();
  std::vector<int> ranks;
  for (const auto& [rank, link] : links_)
    if (!link.ended()) ranks.push_back(rank);
  return ranks;
}

std::optional<transport::Breakage> Relay::failure(int rank) const {
  const auto found = links_.find(rank);
  return found == links_.end() ? std::nullopt : found->second.failure();
}

}  // namespace eccl::runtime::cuda
