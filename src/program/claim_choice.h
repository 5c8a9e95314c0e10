// Whether a receiver claims the lines of a slot as it reads them (kernels/reduce.h), by what that takes at the
// moment.
//
// A claim spares the sender, who writes there next, a wait for each line. What that is worth depends on the
// processor and on how the two cores are connected. Without the library, in pieces of 128 KiB, 256 KiB in one
// direction take 10 us claimed and 17 left in a common cache, and 26 and 62 without one, on an AMD EPYC of
// family 25 model 17 (perf/results/epyc-25-17/compare.json). On one of family 26 model 2 a Broadcast takes 6.6
// claimed and 5.2 left, but of 64 KiB 1.9 and 2.3 (perf/results/epyc-26-2/ways.md).
//
// What a claim is worth shows when the next message is written to the same place. So a trial treats the
// messages in one place of the ring the other way for a while, and compares them with those that come there
// before and after. What lies elsewhere is no measure: the first message of a call is waited for, say, and each
// call may begin in the same place. Few messages are dearer for a trial. While messages go another way
// (program/way_choice.h) nothing is tried: that way was compared with slots as they were read last.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace eccl {

/// The choice of one receiving end. A value. One thread at a time, the driver's.
class ClaimChoice {
 public:
  /// Shorter messages are always claimed: to leave them gained next to nothing.
  static constexpr uint32_t kFrom = 65536;

  /// Whether the data of a message is to be claimed that lies in this place: Slot::area.
  constexpr bool claims(uint32_t length, uint32_t place) const {
    if (length < kFrom) return true;
    const Size& size = sizes_[indexOf(length)];
    return size.claims != size.tries(place);
  }

  /// A message that came there, and was treated as claims() says, took both sides so many ticks; 0: it was not
  /// measured.
  void note(uint32_t length, uint32_t place, uint64_t ticks) {
    if (length < kFrom || ticks == 0) return;
    sizes_[indexOf(length)].note(place, std::max<uint64_t>((ticks << 16) / length, 1));
  }

 private:
  static constexpr uint32_t kSamples = 8;                            // of each part of a trial
  static constexpr uint32_t kMost = 4096;                            // messages of a trial, wherever they lie
  static constexpr uint32_t kFirstPause = 32, kLongestPause = 8192;  // messages between two trials
  static constexpr size_t indexOf(uint32_t length) {
    return static_cast<size_t>(std::bit_width(length) - std::bit_width(kFrom));
  }

  enum class Part : uint8_t { before, other, after, none };
  /// Of messages of a size: the power of two below. Costs are ticks for 64 KiB.
  struct Size {
    bool claims = true;
    Part part = Part::none;  // of the trial that is under way
    bool turned = false;     // a message has come since the part began
    uint32_t place = 0;      // of the trial
    uint32_t messages = 0;   // of the trial, or since the last one
    uint32_t pause = kFirstPause;
    uint32_t samples = 0;   // of the part
    uint64_t sums[3] = {};  // of each part's samples

    constexpr bool tries(uint32_t at) const { return part == Part::other && at == place; }
    uint64_t& sum(Part its) { return sums[static_cast<int>(its)]; }
    void begin(Part its) {
      part = its;
      turned = its == Part::before;
      samples = 0;
      sum(its) = 0;
    }
    void note(uint32_t at, uint64_t cost) {
      ++messages;
      if (part == Part::none) {
        if (messages < pause) return;
        messages = 0;
        place = at;
        return begin(Part::before);
      }
      if (messages == kMost) return end(false);
      if (at != place) return;
      // The first one was written to lines as the part before has left them.
      if (!std::exchange(turned, true)) return;
      // Single long times say that something interrupted.
      if (samples > 0) cost = std::min(cost, 4 * sum(part) / samples);
      sum(part) += cost;
      ++samples;
      const bool hopeless =
          part == Part::other && samples >= 2 && sum(part) * kSamples > 2 * sum(Part::before) * samples;
      if (hopeless) return end(false);
      if (samples < kSamples) return;
      if (part != Part::after) return begin(part == Part::before ? Part::other : Part::after);
      const uint64_t usual = std::min(sum(Part::before), sum(Part::after));  // one may have been interrupted
      end(sum(Part::other) + usual / 16 < usual);
    }
    void end(bool isBetter) {
      part = Part::none;
      messages = 0;
      claims ^= isBetter;
      pause = isBetter ? kFirstPause : std::min(2 * pause, kLongestPause);
    }
  };
  Size sizes_[33 - std::bit_width(kFrom)];
};

}  // namespace eccl
