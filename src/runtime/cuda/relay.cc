#include "runtime/cuda/relay.h"

#include <cstddef>
#include <cstring>

namespace eccl::runtime::cuda {

Relay::~Relay() {
  for (const Pinned& each : memory_) gpu_.giveBack(each, {});
}

Result<std::vector<Rings::RingStrip>> Relay::ring(const RingId& id, uint32_t width) {
  constexpr size_t kReceiverBytes = sizeof(lanes::AtReceiver),
                   kStripBytes = kReceiverBytes + sizeof(lanes::AtSender);
  static_assert(kReceiverBytes % alignof(lanes::AtSender) == 0 &&
                kStripBytes % alignof(lanes::AtReceiver) == 0);
  std::vector<Rings::RingStrip>& its = made_[id];
  if (its.size() < width) {
    // Without the lock, which the driver takes: CUDA's may wait for a kernel that waits for this rank.
    const size_t more = width - its.size();
    ECCL_ASSIGN(const Pinned pinned, gpu_.pin(more * kStripBytes));
    memory_.push_back(pinned);
    Address device = 0;
    ECCL_TRY(gpu_.driver().check(gpu_.driver().cuMemHostGetDevicePointer(&device, pinned.memory, 0),
                                 "cuMemHostGetDevicePointer", "on %s", gpu_.name().c_str()));
    std::vector<New> made;
    for (size_t i = 0; i < more; ++i, device += kStripBytes) {
      std::byte *const receiver = pinned.memory + i * kStripBytes, *const sender = receiver + kReceiverBytes;
      std::memset(receiver, 0, offsetof(lanes::AtReceiver, slots));
      std::memset(sender, 0, sizeof(lanes::AtSender));
      its.push_back({reinterpret_cast<lanes::AtReceiver*>(device),
                     reinterpret_cast<lanes::AtSender*>(device + kReceiverBytes)});
      made.push_back({id,
                      reinterpret_cast<lanes::AtReceiver*>(receiver),
                      reinterpret_cast<lanes::AtSender*>(sender),
                      {pinned.memory, pinned.bytes}});
    }
    std::lock_guard lock(mutex_);
    new_.insert(new_.end(), made.begin(), made.end());
    anyNew_.store(true, std::memory_order_release);
  }
  return std::vector(its.begin(), its.begin() + width);
}

void Relay::takeNew() {
  if (!anyNew_.load(std::memory_order_acquire)) return;
  std::vector<New> made;
  {
    std::lock_guard lock(mutex_);
    made.swap(new_);
    anyNew_.store(false, std::memory_order_relaxed);
  }
  for (const New& each : made) {
    const auto [from, to, channel, tag] = each.id;
    const int peer = from == rank_ ? to : from;
    auto link = links_.find(peer);
    if (link == links_.end()) {
      transport::Connection& there = *ways_.connection({rank_, peer, 0, transport::kRelayTag});
      transport::Connection& here = *ways_.connection({peer, rank_, 0, transport::kRelayTag});
      link = links_.try_emplace(peer, rank_, peer, there, here, ways_.sendsFrom).first;
    }
    link->second.add(each.id, each.receiver, each.sender, each.memory);
  }
}

Result<bool> Relay::advance(bool ending, const std::function<void(int)>& moved, const Meeting& meeting) {
  takeNew();
  bool any = false;
  Status first;
  for (auto& [rank, link] : links_) {
    const Result<bool> its = link.advance(ending, ways_.hasLeft(rank), meeting);
    if (its.ok() && *its) moved(rank);
    any |= its.ok() && *its;
    if (!its.ok() && first.ok()) first = its.status();
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

Status Relay::failure(int rank) const {
  const auto found = links_.find(rank);
  return found == links_.end() ? Status() : found->second.failure();
}

}  // namespace eccl::runtime::cuda
