// Whether a receiver claims the lines of a slot as it reads them (kernels/reduce.h), by what that takes at the
// moment.
//
// A claim spares the sender, who writes there next, a wait for each line. What that is worth depends on the
// processor and on how the two cores are connected. Without the library, in pieces of 128 KiB, 256 KiB in one
// direction take 10 us claimed and 17 left in a common cache, and 26 and 62 without one, on an AMD EPYC of
// family 25 model 17 (perf/results/epyc-25-17/compare.json). On one of family 26 model 2 a Broadcast takes 6.6
// claimed and 5.2 left, and of 16 KiB .67 and .59, but of 64 KiB 1.9 and 2.3 (perf/results/epyc-26-2/ways.md).
//
// What a claim is worth shows when the next message is written to the same place. So a trial treats all
// messages the other way for a round of the ring, before it measures whole rounds, and compares them with those
// before and after. All begin at the same place: the first message of a call is waited for, say, and each call
// may begin there. While messages go another way (program/way_choice.h) nothing is tried: that way was compared
// with slots as they were read last.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace eccl {

/// The choice of one receiving end. A value. One thread at a time, the driver's.
class ClaimChoice {
 public:
  /// Shorter messages are always claimed: to leave them gained next to nothing.
  static constexpr uint32_t kFrom = 8192;

  /// Whether the data of a message is to be claimed.
  constexpr bool claims(uint32_t length) const {
    if (length < kFrom) return true;
    const Size& size = sizes_[indexOf(length)];
    return size.claims != (size.part == Part::other);
  }

  /// A message that was treated as claims() says, and lay in this place, Slot::area, took both sides so many
  /// ticks; 0: it was not measured.
  void note(uint32_t length, uint32_t place, uint64_t ticks) {
    if (length < kFrom) return;
    sizes_[indexOf(length)].note(place, ticks > 0 ? std::max<uint64_t>((ticks << 16) / length, 1) : 0);
  }

 private:
  static constexpr uint32_t kSamples = 8;  // of each part of a trial, or more: parts are whole rounds
  /// Messages of a trial. Where calls change, none may come to its place any more.
  static constexpr uint32_t kMost = 1024;
  /// Messages before the first trial, which go into fresh memory, after a change, and at most.
  static constexpr uint32_t kFirstPause = 16, kPause = 64, kLongestPause = 8192;
  static constexpr size_t indexOf(uint32_t length) {
    return static_cast<size_t>(std::bit_width(length) - std::bit_width(kFrom));
  }

  enum class Part : uint8_t { before, other, after, none };
  /// Of messages of a size: the power of two below. Costs are ticks for 64 KiB.
  struct Size {
    bool claims = true;
    Part part = Part::none;  // of the trial that is under way
    bool turned = false;     // messages are written to places as this part leaves them
    uint32_t place = 0;      // behind which each part begins
    uint32_t messages = 0;   // of the trial, or since the last one
    uint32_t pause = kFirstPause;
    uint32_t samples = 0;    // of the part
    uint64_t sum = 0;        // of these
    uint64_t means[3] = {};  // of each part

    uint64_t& mean(Part its) { return means[static_cast<int>(its)]; }
    void begin(Part its) {
      part = its;
      turned = its == Part::before;
      samples = 0;
      sum = 0;
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
      if (!turned) {
        turned = at == place;
        return;
      }
      // Single long times say that something interrupted.
      if (samples > 0) cost = std::min(cost, 4 * sum / samples);
      sum += cost;
      samples += cost > 0;
      const bool hopeless = part == Part::other && samples >= 2 && sum / samples > 2 * mean(Part::before);
      if (hopeless) return end(false);
      if (samples < kSamples || at != place) return;
      mean(part) = sum / samples;
      if (part != Part::after) return begin(part == Part::before ? Part::other : Part::after);
      const uint64_t usual = std::min(mean(Part::before), mean(Part::after));  // one may have been interrupted
      end(mean(Part::other) + usual / 16 < usual);
    }
    void end(bool isBetter) {
      part = Part::none;
      claims ^= isBetter;
      // Where rounds are long so are trials.
      pause = std::max(isBetter ? kPause : std::min(2 * pause, kLongestPause), 2 * messages);
      messages = 0;
    }
  };
  Size sizes_[33 - std::bit_width(kFrom)];
};

}  // namespace eccl
