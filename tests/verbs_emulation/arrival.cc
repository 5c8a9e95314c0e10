#include "verbs_emulation/arrival.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace eccl::verbs_emulation {
namespace {

constexpr size_t kLine = 64;

struct Move {
  uint8_t* to;
  const uint8_t* from;
  size_t bytes;
};

/// The moves that make the copy, in order. No move passes the end of a cache line of the target if `lines`.
std::vector<Move> movesOf(const std::vector<Span>& from, const std::vector<Span>& to, bool lines) {
  std::vector<Move> moves;
  size_t target = 0, done = 0;  // bytes `done` of the target
  for (Span source : from) {
    while (source.bytes > 0 && target < to.size()) {
      if (done == to[target].bytes) {
        ++target, done = 0;
        continue;
      }
      uint8_t* const place = to[target].data + done;
      size_t bytes = std::min(source.bytes, to[target].bytes - done);
      if (lines) bytes = std::min(bytes, kLine - reinterpret_cast<uintptr_t>(place) % kLine);
      moves.push_back({place, source.data, bytes});
      source.data += bytes, source.bytes -= bytes, done += bytes;
    }
  }
  return moves;
}

void shuffleMoves(std::vector<Move>& moves) {
  uint64_t state = 1;
  for (size_t left = moves.size(); left > 1; --left) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(moves[left - 1], moves[(state >> 33) % left]);
  }
}

}  // namespace

void transfer(const std::vector<Span>& from, const std::vector<Span>& to, VerbsEmulationOrder order) {
  std::vector<Move> moves = movesOf(from, to, order != VERBS_EMULATION_FORWARD);
  if (order == VERBS_EMULATION_BACKWARD) std::reverse(moves.begin(), moves.end());
  if (order == VERBS_EMULATION_SHUFFLED) shuffleMoves(moves);
  // memmove: a queue pair may be connected to itself, and write where it reads.
  for (const Move& move : moves) std::memmove(move.to, move.from, move.bytes);
}

Landing later(const std::vector<Span>& from, const std::vector<Span>& to) {
  Landing landing{{}, to};
  for (const Span& source : from)
    landing.message.insert(landing.message.end(), source.data, source.data + source.bytes);
  return landing;
}

void land(std::vector<Landing>& landings, VerbsEmulationOrder order) {
  for (Landing& each : std::exchange(landings, {}))
    transfer({{each.message.data(), each.message.size()}}, each.to, order);
}

}  // namespace eccl::verbs_emulation
