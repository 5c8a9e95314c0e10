// The two halves of what crosses hosts by rings, one ring for each place: all_gather_hierarchical.cc and
// reduce_scatter_hierarchical.cc have one of them each, all_reduce_rail.cc has both.
//
// The data is in units. Each belongs to a host, on which its sum ends or from which it is spread, and there to a
// place. As many ranks of a host are carriers as the smallest host has: the carriers at place c of all hosts are
// a ring, around which the units of place c go, and of c + carriers, and so on, where hosts are larger. All
// rings are busy at once, each on the ports of its own ranks.
//
// Every lane serves the units in one order, by (which of its ring's units of a host; how far it has come around
// the ring; the ring), so that none waits for another that waits for it.
#pragma once

#include <functional>
#include <vector>

#include "algorithms/builder/builder.h"
#include "algorithms/builder/groups.h"

namespace eccl::algorithms {

/// One channel of one rank.
class HostRings {
 public:
  /// The units of every host, by place; at least one for each carrier.
  using Units = std::vector<std::vector<int>>;
  /// The memory of units, given the buffer.
  using UnitsOf = std::function<Reference(Reference buffer, Walk units)>;
  /// A step of a lane.
  struct Where {
    int lane = 0, step = 0;
  };

  /// `hosts` outlives this.
  HostRings(Builder& b, const Groups& hosts, int rank, int channel, Units units, UnitsOf unitsOf);

  /// Sums up the input's units, each into the output of the rank at its place on its host. Sums of more than
  /// eight at once need scratch of all units: needsScratch(). Returns where the unit of a carrier becomes final.
  Where sumUp();
  bool needsScratch() const;
  /// Brings the units of all places to the outputs of all ranks. They are in the input, or already in the output
  /// when `ready` is over.
  void spread(const Where* ready = nullptr);

 private:
  struct Entry;
  std::vector<Entry> ringOrder(int column, bool sums) const;
  std::vector<int> columnsFrom(int first, int stride) const;
  int otherColumns() const;
  Where contributeAndSum(const std::vector<Entry>& entries);
  void passAround(const Where* ready, int extrasLane, const std::vector<Entry>& extras);

  Builder& b_;
  const Groups& hosts_;
  const int rank_, channel_, hostCount_, host_, place_, n_, carriers_;
  const Units units_;
  const UnitsOf unitsOf_;
};

}  // namespace eccl::algorithms
