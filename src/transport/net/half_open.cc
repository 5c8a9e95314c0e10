#include "transport/net/half_open.h"

#include <netinet/in.h>

#include <algorithm>

namespace eccl::transport {

std::string sourceOf(const sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    constexpr size_t kNetwork = 8;  // whoever has one address of it has them all
    const auto& bytes = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr.s6_addr;
    return std::string(reinterpret_cast<const char*>(bytes), kNetwork);
  }
  return std::string(bytesOf(reinterpret_cast<const sockaddr_in*>(address)->sin_addr));
}

std::string sourceOf(const ucred& peer) {
  return std::string(bytesOf(peer.uid));
}

HalfOpen::Slot* HalfOpen::next(size_t room) {
  if (count_ < room) {
    patience_ = count_ <= room / 2 ? kPatience : std::min(kPatience, patience_ + kPatience / 16);
    return nullptr;
  }
  size_t heaviest = 0;
  for (const auto& [source, holds] : by_) heaviest = std::max(heaviest, holds);
  Slot* first = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.taken() || by_[slot.source] < heaviest) continue;
    const auto order = [](const Slot& s) { return std::pair(s.handshake.greeted(), s.since); };
    if (first == nullptr || order(slot) < order(*first)) first = &slot;
  }
  return first;
}

// By a part that lets a flood through in a few times the first patience, and is too small for a few slow
// callers to take it away from the others.
void HalfOpen::shortenPatience(size_t room) {
  constexpr size_t kFew = 32;
  patience_ = std::max(kMinPatience, patience_ - patience_ * 4 / static_cast<int64_t>(std::max(kFew, room)));
}

HalfOpen::Slot* HalfOpen::nextOutsider(size_t room) {
  size_t outsiders = 0;
  Slot* first = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.taken() || !slot.outsider) continue;
    ++outsiders;
    if (first == nullptr || slot.since < first->since) first = &slot;
  }
  return outsiders < std::max<size_t>(1, room / 8) ? nullptr : first;
}

HalfOpen::Slot& HalfOpen::take(const std::string& source) {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.taken(); });
  Slot& slot = free != slots_.end() ? *free : slots_.emplace_back();
  slot.source = source;
  ++by_[source];
  ++count_;
  ++ofProcess_;
  return slot;
}

void HalfOpen::release(Slot& slot) {
  slot.handshake = Handshake();
  auto held = by_.find(slot.source);
  if (--held->second == 0) by_.erase(held);
  --count_;
  --ofProcess_;
}

}  // namespace eccl::transport
