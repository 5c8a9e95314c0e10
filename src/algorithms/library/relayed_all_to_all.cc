// A relay knows no lengths and keeps no block of others: it forwards messages as they come, from slot to slot.
// So programs are streams, those of AlltoAll too. Blocks for one destination stay messages of their own: a
// message is of one block (docs/schedule.md), and between hosts the socket sends those that wait together.
//
// Why nothing deadlocks, even with one slot: every lane serves its blocks in the order of one key, by
//   (distance g'-g around the groups; the round, p / own group's size; distance from l to the relay)
// of a block from (group g, place l) to (g', p), each round the tiles of all blocks in that order. The least
// message not yet delivered therefore waits for nobody.
#include "algorithms/library/relayed_all_to_all.h"

#include <algorithm>

#include "algorithms/builder/patterns.h"
#include "algorithms/builder/runs.h"

namespace eccl::algorithms {
namespace {

/// One channel of one rank.
class Relay {
 public:
  Relay(Builder& b, const Groups& groups, int rank, int channel)
      : b_(b),
        groups_(groups),
        n_(groups.ranks()),
        rank_(rank),
        channel_(channel),
        group_(groups.groupOf(rank)),
        size_(groups.size(group_)),
        place_(groups.placeOf(rank)) {}

  void build() {
    arrive();
    forward();
    leave();
  }

 private:
  Reference leaving(Walk block) { return input().block(block).part(channel_).stable(); }
  Reference arriving(Walk block) { return output().block(block).part(channel_); }
  int blockTo(int to) const { return rank_ * n_ + to; }
  int blockFrom(int from) const { return from * n_ + rank_; }
  /// Adds an end to every other member of the own group, by place; returns the first.
  template <class Add>
  int withMembers(Add add) {
    const int first = b_.ends();
    for (int place = 0; place < size_; ++place)
      if (place != place_) add(groups_.member(group_, place));
    return first;
  }
  /// Which of those ends a member's is.
  int endOf(int place) const { return place < place_ ? place : place - 1; }

  /// What relays of other groups bring, from their places downwards around the group.
  void arrive() {
    for (int distance = 1; distance < groups_.number(); ++distance) {
      b_.lane(channel_);  // of its own: a group that is late holds up no other
      const int group = mod(group_ - distance, groups_.number()), size = groups_.size(group),
                relay = place_ % size;
      Operand from = connection(b_.receiveFrom(groups_.member(group, relay), channel_));
      std::vector<Pair> list;
      for (int i = 0; i < size; ++i)
        list.push_back({blockFrom(groups_.member(group, mod(relay - i, size))), 0});
      for (const Walks& run : runsOf(list)) b_.step({from}, {arriving(run.first)}).repeat(run.times);
    }
  }

  /// What members of the own group bring: some for this rank, the rest to be passed on; and the own blocks
  /// that go the same way from here.
  void forward() {
    const int first = withMembers([&](int peer) { b_.receiveFrom(peer, channel_); });
    std::vector<Pair> members;  // place-1, place-2, … around the group, this rank left out
    for (int i = 1; i < size_; ++i) {
      const int place = mod(place_ - i, size_);
      members.push_back({first + endOf(place), blockFrom(groups_.member(group_, place))});
    }
    if (n_ > 1) b_.lane(channel_);
    for (const Walks& run : runsOf(members))
      b_.step({connections(run.first)}, {arriving(run.second)}).repeat(run.times);
    for (int distance = 1; distance < groups_.number(); ++distance) {
      const int group = (group_ + distance) % groups_.number();
      for (int place = place_; place < groups_.size(group); place += size_) {
        const int target = groups_.member(group, place);
        Operand to = connection(b_.sendTo(target, channel_));
        b_.step({leaving({blockTo(target), 0, 0, 0})}, {to});
        if (size_ > 1) b_.step({connections({first, place_ - 1, -1, size_ - 1})}, {to}).repeat(size_ - 1);
      }
    }
  }

  /// The own blocks, to the members of the own group who relay or keep them, from the next place on around it.
  void leave() {
    b_.lane(channel_);
    const int first = withMembers([&](int peer) { b_.sendTo(peer, channel_); });
    for (int distance = 0; distance < groups_.number(); ++distance) {
      const int group = (group_ + distance) % groups_.number();
      for (int round = 0; round < groups_.size(group); round += size_) {
        std::vector<Pair> list;
        for (int i = 1; i < size_; ++i) {
          const int relay = (place_ + i) % size_;
          if (round + relay < groups_.size(group))
            list.push_back({blockTo(groups_.member(group, round + relay)), first + endOf(relay)});
        }
        for (const Walks& run : runsOf(list))
          b_.step({leaving(run.first)}, {connections(run.second)}).repeat(run.times);
      }
    }
    const int own = blockTo(rank_);
    b_.step({input(own).part(channel_)}, {output(own).part(channel_)});
  }

  Builder& b_;
  const Groups& groups_;
  const int n_, rank_, channel_, group_, size_, place_;
};

}  // namespace

Program relayedAllToAll(const CollectiveShape& shape, const Groups& groups, int rank, int channels) {
  Builder b(shape, rank, channels, channels);
  b.streams();
  for (int channel = 0; channel < channels; ++channel) Relay(b, groups, rank, channel).build();
  return b.take();
}

}  // namespace eccl::algorithms
