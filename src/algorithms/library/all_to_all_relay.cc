// AlltoAllv in two hops, for many ranks: about 2 sqrt(n) connections per rank instead of 2(n-1).
//
// The ranks stand in floor(sqrt n) groups of consecutive ranks whose sizes differ by at most one. A block from
// (group g, place l) to (g', l') goes to (g, l') first, inside the group, and from there to (g', l'). Where
// g is one place smaller than g' and has no place l', the relay is (g, 0).
//
// A relay knows no lengths: it forwards messages as they come, from slot to slot (Program::streams), and
// keeps no block of others.
//
// Why nothing deadlocks, even with one slot: every lane serves its blocks in the order of one key, by
//   (distance g'-g around the groups; whether the relay is the substitute; distance from l to the relay),
// each round the tiles of all blocks in that order. The least message not yet delivered therefore waits for
// nobody.
#include <algorithm>
#include <cmath>

#include "algorithms/builder/patterns.h"
#include "algorithms/library/builders.h"

namespace eccl::algorithms {
namespace {

struct Groups {
  int ranks, number;

  explicit Groups(int n) : ranks(n), number(static_cast<int>(std::sqrt(n))) {}
  int first(int group) const { return group * (ranks / number) + std::min(group, ranks % number); }
  int size(int group) const { return first(group + 1) - first(group); }
  int of(int rank) const {
    int group = 0;
    while (first(group + 1) <= rank) ++group;
    return group;
  }
};

/// One channel of one rank.
class Relay {
 public:
  Relay(Builder& b, int ranks, int rank, int channel)
      : b_(b),
        groups_(ranks),
        n_(ranks),
        rank_(rank),
        channel_(channel),
        group_(groups_.of(rank)),
        size_(groups_.size(group_)),
        place_(rank - groups_.first(group_)) {}

  void build() {
    arrive();
    forward();
    leave();
  }

 private:
  Reference leaving(Walk to) {
    to.base += rank_ * n_;
    return input().block(to).part(channel_).stable();
  }
  /// Blocks for this rank from a group's members, from `place` downwards around the group.
  Reference arriving(int group, int place) {
    const int size = groups_.size(group);
    return output().part(channel_).block(Walk{groups_.first(group) * n_ + rank_, place * n_, -n_, size * n_});
  }

  /// What relays of other groups bring.
  void arrive() {
    if (groups_.number > 1) b_.lane(channel_);
    for (int distance = 1; distance < groups_.number; ++distance) {
      const int group = mod(group_ - distance, groups_.number);
      const int relay = place_ < groups_.size(group) ? place_ : 0;
      Operand from = connection(b_.receiveFrom(groups_.first(group) + relay, channel_));
      b_.step({from}, {arriving(group, relay)}).repeat(groups_.size(group));
    }
  }

  /// What members of the own group bring: some for this rank, the rest to be passed on; and the own blocks
  /// that go the same way from here.
  void forward() {
    int first = 0;
    for (int place = 0; place < size_; ++place) {  // in the order of places
      if (place == place_) continue;
      int index = b_.receiveFrom(groups_.first(group_) + place, channel_);
      if (place == (place_ == 0 ? 1 : 0)) first = index;
    }
    // place-1, place-2, … around the group, this rank left out.
    Operand members = connections({first, place_ - 1, -1, size_ - 1});
    if (n_ > 1) b_.lane(channel_);
    if (size_ > 1) b_.step({members}, {arriving(group_, mod(place_ - 1, size_))}).repeat(size_ - 1);
    for (int distance = 1; distance < groups_.number; ++distance) {
      const int group = (group_ + distance) % groups_.number, theirs = groups_.size(group);
      auto pass = [&](int place) {
        const int target = groups_.first(group) + place;
        Operand to = connection(b_.sendTo(target, channel_));
        b_.step({leaving({target, 0, 0, 0})}, {to});
        if (size_ > 1) b_.step({members}, {to}).repeat(size_ - 1);
      };
      if (place_ < theirs) pass(place_);
      if (place_ == 0 && theirs > size_) pass(size_);
    }
  }

  /// The own blocks, to the members of the own group who relay or keep them.
  void leave() {
    b_.lane(channel_);
    int first = 0;
    for (int place = 0; place < size_; ++place) {
      if (place == place_) continue;
      int index = b_.sendTo(groups_.first(group_) + place, channel_);
      if (place == (place_ == 0 ? 1 : 0)) first = index;
    }
    for (int distance = 0; distance < groups_.number; ++distance) {
      const int group = (group_ + distance) % groups_.number, theirs = groups_.size(group);
      // place+1, place+2, … around the places that both groups have, this rank's left out.
      const int common = std::min(size_, theirs), others = common - (place_ < common ? 1 : 0);
      Walk blocks{groups_.first(group), (place_ + 1) % size_, 1, common};
      if (others > 0) b_.step({leaving(blocks)}, {connections({first, place_, 1, others})}).repeat(others);
      if (place_ != 0 && theirs > size_) {
        b_.step({leaving({groups_.first(group) + size_, 0, 0, 0})}, {connection(first)});
      }
    }
    const int own = rank_ * n_ + rank_;
    b_.step({input(own).part(channel_)}, {output(own).part(channel_)});
  }

  Builder& b_;
  const Groups groups_;
  const int n_, rank_, channel_, group_, size_, place_;
};

}  // namespace

Program allToAllRelay(const CollectiveShape& shape, const Placement&, int rank, int channels) {
  Builder b(shape, rank, channels, channels);
  b.streams();
  for (int channel = 0; channel < channels; ++channel) Relay(b, shape.ranks, rank, channel).build();
  return b.take();
}

}  // namespace eccl::algorithms
