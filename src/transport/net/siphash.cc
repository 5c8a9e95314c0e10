#include "transport/net/siphash.h"

#include <bit>
#include <cstring>

namespace eccl::transport {
namespace {

// The four words and the round of the paper, section 2.
struct State {
  uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13);
      v1 ^= v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16);
      v3 ^= v2;
      v0 += v3;
      v3 = std::rotl(v3, 21);
      v3 ^= v0;
      v2 += v1;
      v1 = std::rotl(v1, 17);
      v1 ^= v2;
      v2 = std::rotl(v2, 32);
    }
  }
  uint64_t fold() const { return v0 ^ v1 ^ v2 ^ v3; }
};

uint64_t load64(const void* from) {
  uint64_t word;  // little-endian host, see bytes.h
  std::memcpy(&word, from, sizeof word);
  return word;
}

}  // namespace

Tag sipHash128(const std::array<uint8_t, 16>& key, std::string_view data) {
  const uint64_t k0 = load64(key.data()), k1 = load64(key.data() + 8);
  State s{0x736f6d6570736575ull ^ k0, 0x646f72616e646f6dull ^ k1, 0x6c7967656e657261ull ^ k0,
          0x7465646279746573ull ^ k1};
  s.v1 ^= 0xee;  // marks the 128-bit variant

  size_t offset = 0;
  for (; offset + 8 <= data.size(); offset += 8) {
    const uint64_t word = load64(data.data() + offset);
    s.v3 ^= word;
    s.rounds(2);
    s.v0 ^= word;
  }
  // The last block carries the remaining bytes and the length's low byte.
  uint64_t last = static_cast<uint64_t>(data.size()) << 56;
  if (offset < data.size()) std::memcpy(&last, data.data() + offset, data.size() - offset);
  s.v3 ^= last;
  s.rounds(2);
  s.v0 ^= last;

  // Finalisation: two halves of the tag, with the constants of the reference implementation.
  Tag tag;
  s.v2 ^= 0xee;
  s.rounds(4);
  uint64_t half = s.fold();
  std::memcpy(tag.data(), &half, 8);
  s.v1 ^= 0xdd;
  s.rounds(4);
  half = s.fold();
  std::memcpy(tag.data() + 8, &half, 8);
  return tag;
}

}  // namespace eccl::transport
