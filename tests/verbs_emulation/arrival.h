// How the bytes of a message come to memory: all at once, or by cache lines in an order that nobody may rely
// on, and at once or with the next completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbs_emulation/verbs_emulation.h"

namespace eccl::verbs_emulation {

/// Memory of this process.
struct Span {
  uint8_t* data;
  size_t bytes;
};

/// A message that is still to come to memory.
struct Landing {
  std::vector<uint8_t> message;
  std::vector<Span> to;
};

/// Copies as many bytes as `from` has to the front of `to`, in that order of cache lines.
void transfer(const std::vector<Span>& from, const std::vector<Span>& to, VerbsEmulationOrder order);

/// Copies a message and where it is to go.
Landing later(const std::vector<Span>& from, const std::vector<Span>& to);
/// What was to come later comes now; the list is empty then.
void land(std::vector<Landing>& landings, VerbsEmulationOrder order);

}  // namespace eccl::verbs_emulation
