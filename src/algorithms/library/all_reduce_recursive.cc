// AllReduce by recursive halving, then recursive doubling: 2 log2 n rounds and the ring's volume
// (R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004).
//
// A round exchanges with the rank that differs in one bit, nearest first, so that the largest messages stay
// among neighbours. Any n: the ranks beyond the greatest power of two hand their data to a partner below it
// before, and get the result after; that costs two more rounds of the whole size.
#include <algorithm>
#include <bit>

#include "algorithms/builder/builder.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

struct Exchange {
  Operand send, receive;
  int mine, theirs;  // first part of the half this rank keeps, and of the one it gives away
  int count;         // parts in a half
};

}  // namespace

Program allReduceRecursive(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  const int n = shape.ranks, power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  Builder b(shape, rank, channels, power * channels);
  if (n != power) b.messageParts(power);  // those who hand over send everything
  for (int channel = 0; channel < channels; ++channel) {
    b.lane(channel);
    auto parts = [&](Reference memory, int first, int count) {
      return memory.part(channel * power + first).count(count);
    };
    if (n == 1) {
      b.step({parts(input(), 0, 1).pre()}, {parts(output(), 0, 1)}).post();
      continue;
    }
    if (rank >= power) {
      b.step({parts(input(), 0, power).pre().stable()}, {connection(b.sendTo(rank - power, channel))});
      b.step({connection(b.receiveFrom(rank - power, channel))}, {parts(output(), 0, power).posted()});
      continue;
    }
    // Where this rank's sum lies so far: raw in the input, or already in the output.
    Reference sum = input().pre();
    const bool folds = rank + power < n;
    if (folds) {
      b.step({parts(sum, 0, power), connection(b.receiveFrom(rank + power, channel))},
             {parts(output(), 0, power)});
      sum = output();
    }

    std::vector<Exchange> exchanges;
    int first = 0;
    for (int bit = 1, half = power / 2; bit < power; bit *= 2, half /= 2) {
      const int upper = first + half;
      const bool keepsUpper = (rank & bit) != 0;
      Exchange e{connection(b.sendTo(rank ^ bit, channel)), connection(b.receiveFrom(rank ^ bit, channel)),
                 keepsUpper ? upper : first, keepsUpper ? first : upper, half};
      b.step({parts(sum, e.theirs, half).stable()}, {e.send});
      auto halved = b.step({parts(sum, e.mine, half), e.receive}, {parts(output(), e.mine, half)});
      if (half == 1) halved.post();
      sum = output();
      first = e.mine;
      exchanges.push_back(e);
    }
    std::reverse(exchanges.begin(), exchanges.end());
    for (const Exchange& e : exchanges) {
      b.step({parts(output(), e.mine, e.count).stable()}, {e.send});
      b.step({e.receive}, {parts(output(), e.theirs, e.count).posted()});
    }
    if (folds) { b.step({parts(output(), 0, power).stable()}, {connection(b.sendTo(rank + power, channel))}); }
  }
  return b.take();
}

}  // namespace eccl::algorithms
