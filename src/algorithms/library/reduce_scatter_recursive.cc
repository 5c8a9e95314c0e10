// ReduceScatter by halving: the doubling AllGather (all_gather_recursive.cc) run backwards, with sums where
// that has copies. In a round of distance d a rank hands its sums for up to d blocks to the rank d ahead, and
// gets those for as many blocks, its own first, from the rank d behind. ceil(log2 n) rounds for any n.
//
// Blocks are counted from the rank's own, 0, upwards. Sums lie in scratch: the input is not ours to write.
#include <algorithm>
#include <bit>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

struct Round {
  int distance, blocks;
  // How many of the blocks received [0, blocks) and sent [distance, distance + blocks) have a sum in scratch
  // already; always the first ones. Of the others there is only this rank's raw contribution.
  int receivedSums, sentSums;
};

std::vector<Round> planRounds(int n) {
  std::vector<Round> rounds;
  int summed = 0;  // blocks [0, summed) have one
  for (int distance = static_cast<int>(std::bit_floor(n - 1u)); distance > 0; distance /= 2) {
    const int blocks = std::min(distance, n - distance);
    rounds.push_back({distance, blocks, std::min(summed, blocks), std::clamp(summed - distance, 0, blocks)});
    summed = std::max(summed, blocks);
  }
  return rounds;
}

}  // namespace

Program reduceScatterRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks;
  const std::vector<Round> rounds = planRounds(n);
  Builder b(shape, rank, channels, channels);
  if (n > 2) b.scratch({0, 1, n});
  int sendingSteps = 0;
  for (const Round& r : rounds) sendingSteps += (r.sentSums > 0) + (r.sentSums < r.blocks);
  for (int channel = 0; channel < channels; ++channel) {
    Reference result = output(rank).part(channel);
    auto raw = [&](int from) { return input().part(channel).block(ahead(rank, n, from)).pre(); };
    auto sum = [&](int from) { return scratch().part(channel).block(ahead(rank, n, from)); };
    const int receiving = b.lane(channel), sending = receiving + 1;
    if (n == 1) {
      b.step({raw(0)}, {result}).post();
      continue;
    }

    std::vector<int> received;  // the last step of each round
    for (const Round& r : rounds) {
      Operand from = connection(b.receiveFrom(mod(rank - r.distance, n), channel));
      if (r.distance == 1) {
        b.step({r.receivedSums > 0 ? sum(0) : raw(0), from}, {result}).post();
        break;
      }
      int last = 0;
      if (r.receivedSums > 0) last = b.step({sum(0), from}, {sum(0)}).repeat(r.receivedSums).index();
      if (r.receivedSums < r.blocks) {
        auto fresh =
            b.step({raw(r.receivedSums), from}, {sum(r.receivedSums)}).repeat(r.blocks - r.receivedSums);
        // Scratch holds the tile before until all of that has been sent.
        if (received.empty()) fresh.afterPreviousTile(sending, sendingSteps - 1);
        last = fresh.index();
      }
      received.push_back(last);
    }

    b.lane(channel);
    for (size_t k = 0; k < rounds.size(); ++k) {
      const Round& r = rounds[k];
      Operand to = connection(b.sendTo((rank + r.distance) % n, channel));
      if (r.sentSums > 0) b.step({sum(r.distance)}, {to}).repeat(r.sentSums).after(receiving, received[k - 1]);
      if (r.sentSums < r.blocks) {
        b.step({raw(r.distance + r.sentSums).stable()}, {to}).repeat(r.blocks - r.sentSums);
      }
    }
  }
  return b.take();
}

}  // namespace eccl::algorithms
