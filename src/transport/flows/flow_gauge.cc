#include "transport/flows/flow_gauge.h"

#include <algorithm>

namespace eccl::transport {
namespace {

/// What a pace is made of, at least.
constexpr size_t kLooks = 10, kMostLooks = 10'000;
constexpr uint64_t kBytes = 256 << 10;
constexpr int kRoundTrips = 15;
/// Flows that met others had bytes waiting in 40 to 80 % of looks, those alone in 0 to 13 % (a ring of eight
/// ranks, 2026-11-23).
constexpr double kWaits = 0.25;

}  // namespace

void FlowGauge::restart() {
  arriving_.clear();
  waiting_ = 0;
}

std::optional<FlowPace> FlowGauge::look(const SocketReport& now) {
  const bool same = now.known && latest_.known && now.ends.local == latest_.ends.local;
  active_ = same && now.sentBytes > latest_.sentBytes;
  if (!same) {
    restart();
    since_ = now;
  }
  latest_ = now;
  if (!active_) return std::nullopt;
  if (arriving_.size() == kMostLooks) {  // a kernel that does not say how long the socket was busy
    restart();
    since_ = now;
  }
  arriving_.push_back(now.arrivingPerSecond);
  waiting_ += now.unsentBytes > 0;
  const uint64_t sent = now.sentBytes - since_.sentBytes;
  const uint64_t busy = now.busyMicroseconds - since_.busyMicroseconds;
  if (arriving_.size() < kLooks || sent < kBytes ||
      std::chrono::microseconds(busy) < roundTrips(kRoundTrips, now))
    return std::nullopt;
  const auto low = arriving_.begin() + static_cast<ptrdiff_t>(arriving_.size() / 4);
  std::nth_element(arriving_.begin(), low, arriving_.end());
  FlowPace pace;
  pace.bytesPerSecond = static_cast<uint64_t>(static_cast<double>(sent) * 1e6 / static_cast<double>(busy));
  if (static_cast<double>(waiting_) < kWaits * static_cast<double>(arriving_.size()))
    pace.bytesPerSecond = std::max(pace.bytesPerSecond, *low);
  // A link lets a burst pass faster than it can go on.
  if (megabits_ > 0) pace.bytesPerSecond = std::min(pace.bytesPerSecond, uint64_t{megabits_} * (1'000'000 / 8));
  pace.megabits = megabits_;
  pace.lost = now.retransmitted > since_.retransmitted;
  restart();
  since_ = now;
  return pace;
}

Duration roundTrips(int count, const SocketReport& socket) {
  constexpr Duration kLeast = std::chrono::milliseconds(50);
  return std::max<Duration>(kLeast, count * std::chrono::microseconds(socket.roundTripMicroseconds));
}

}  // namespace eccl::transport
