#include "transport/tcp/lossy_sockets.h"

#include <algorithm>

namespace eccl::transport {
namespace {

/// Full queues lose many packets at once, bad cables a few all the time. Three looks take about a second.
constexpr int kLossyLooks = 3;
constexpr Duration kLongestWindow = std::chrono::seconds(10);
/// Where many send to one, all rails lose packets. As many times as the one that loses the fewest.
constexpr double kMoreLost = 4;
/// Three quarters of the time are lost, by what the kernel takes the others' rates for. Those are of a moment.
constexpr double kWorthwhile = 4;
/// The kernel counts the time in ticks of its clock, of up to 10 ms.
constexpr double kTickMicroseconds = 10'000;
/// A trial takes a second. All of them together cost 4 s of the first minute.
constexpr Duration kFirstRest = std::chrono::seconds(4), kLongestRest = std::chrono::minutes(5);
/// One that did well for so long has been mended.
constexpr Duration kMended = std::chrono::minutes(1);

double lostOf(const LossySockets::Counts& counts) {
  return static_cast<double>(counts.lost) / static_cast<double>(counts.packets);
}

}  // namespace

void LossySockets::forget(size_t socket) {
  if (socket < sockets_.size()) sockets_[socket] = {};
}

void LossySockets::beginWindow(TimePoint now) {
  begun_ = now;
  for (Socket& one : sockets_) {
    one.base = one.last;
    one.lossyLooks = 0;
  }
}

std::vector<LossySockets::Verdict> LossySockets::judge(TimePoint now,
                                                       const std::vector<std::optional<Counts>>& counts) {
  sockets_.resize(std::max(sockets_.size(), counts.size()));
  bool another = begun_ == TimePoint{};
  bool suspect = false;
  for (size_t i = 0; i < counts.size(); ++i) {
    Socket& one = sockets_[i];
    if (leftOut(i) && now >= one.until) {
      one.until = TimePoint{};
      one.since = now;
      another = true;
    }
    if (!counts[i]) continue;
    // The kernel's numbers have 32 bits; and what was sent again in vain is known later.
    another |= (one.last.packets == 0) != (counts[i]->packets == 0) || counts[i]->packets < one.last.packets;
    const uint64_t lost = std::max(one.last.lost, counts[i]->lost);
    one.lossyLooks += lost > one.last.lost;
    one.last = *counts[i];
    one.last.lost = lost;
    suspect |= one.lossyLooks >= kLossyLooks;
  }
  if (another || now - begun_ >= kLongestWindow) return beginWindow(now), std::vector<Verdict>{};
  std::vector<Verdict> verdicts;
  if (!suspect) return verdicts;
  while (const std::optional<Verdict> verdict = worst(now, counts)) {
    Socket& one = sockets_[verdict->socket];
    one.rest = verdict->rest;
    one.until = now + one.rest;
    verdicts.push_back(*verdict);
  }
  beginWindow(now);
  return verdicts;
}

// The one that was busy for longest of those that lose packets, if the others would be better off.
std::optional<LossySockets::Verdict> LossySockets::worst(
    TimePoint now, const std::vector<std::optional<Counts>>& counts) const {
  std::vector<Counts> gains(counts.size());  // in this window; none where it carries nothing
  uint64_t bytes = 0, rates = 0;
  double least = 1;  // of packets lost
  for (size_t i = 0; i < counts.size(); ++i) {
    if (!counts[i] || leftOut(i)) continue;
    const Counts &last = sockets_[i].last, &base = sockets_[i].base;
    gains[i] = {last.bytes - base.bytes, last.rate, last.busyMicroseconds - base.busyMicroseconds,
                last.packets - base.packets, last.lost - base.lost};
    bytes += gains[i].bytes;
    rates += last.rate;
    if (gains[i].packets > 0) least = std::min(least, lostOf(gains[i]));
  }
  size_t worst = counts.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    const Counts& gain = gains[i];
    if (sockets_[i].lossyLooks < kLossyLooks || gain.packets == 0 || lostOf(gain) < kMoreLost * least) continue;
    if (worst == counts.size() || gain.busyMicroseconds > gains[worst].busyMicroseconds) worst = i;
  }
  if (worst == counts.size() || rates == gains[worst].rate) return {};
  const Counts& gain = gains[worst];
  const double without = static_cast<double>(bytes) * 1e6 / static_cast<double>(rates - gain.rate);
  if (static_cast<double>(gain.busyMicroseconds) < kWorthwhile * (without + kTickMicroseconds)) return {};
  const Socket& one = sockets_[worst];
  const bool again = one.rest > Duration::zero() && now - one.since < kMended;
  const Duration rest = again ? std::min<Duration>(2 * one.rest, kLongestRest) : kFirstRest;
  return Verdict{worst, gain.packets, gain.lost, now - begun_, rest, again};
}

}  // namespace eccl::transport
