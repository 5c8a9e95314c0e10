// Memory that messages are sent from or received into, as transports are told of it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace eccl::transport {

/// Memory, by address.
struct MemoryRange {
  std::byte* base = nullptr;
  size_t bytes = 0;
  /// Whether all of these bytes are of it. Any numbers may be asked for.
  bool contains(const std::byte* memory, uint64_t length) const {
    const auto begin = reinterpret_cast<uintptr_t>(base), address = reinterpret_cast<uintptr_t>(memory);
    return begin <= address && length <= bytes && address - begin <= bytes - length;
  }
  auto operator<=>(const MemoryRange&) const = default;
};

/// Whose memory it is. plain: the program's, who may unmap it when no call uses it. kept: it stays mapped where
/// it is as long as the process. lasting: and it is used again and again, as long as the communicator.
enum class MemoryKind : uint8_t { plain, kept, lasting };
/// What a call does with memory: messages are only sent from there, or received into it as well.
enum class MemoryFor : uint8_t { sending, receiving };
/// Whether memory that is there for `what` is good for `use`.
constexpr bool serves(MemoryFor what, MemoryFor use) {
  return what == MemoryFor::receiving || use == MemoryFor::sending;
}

/// Memory that a call under way uses, as a transport sees it. Owner: the call, until no message is read from
/// there or written to it any more. Threads: the driver's.
class MemoryUse {
 public:
  virtual ~MemoryUse() = default;
};

}  // namespace eccl::transport
