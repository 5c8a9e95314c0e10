// What crosses hosts by rings, one ring for each place, in two halves: all_gather_hierarchical.cc and
// reduce_scatter_hierarchical.cc have one of them each, all_reduce_rail.cc has both.
//
// The data is in units. Each belongs to a host, on which its sum ends or from which it is spread, and there to
// a place. As many ranks of a host are carriers as the smallest host has: the carriers at place c of all hosts
// are a ring. Around it go the units of place c, and of c + carriers, and so on, where hosts are larger. All
// rings are busy at once, each on the ports of its own ranks.
//
// Every lane serves the units in one order, by (which of its ring's units of a host; how far it has come around
// the ring; the ring), so that none waits for another that waits for it.
#pragma once

#include <functional>
#include <vector>

#include "algorithms/builder/builder.h"
#include "algorithms/builder/groups.h"
#include "algorithms/builder/patterns.h"
#include "algorithms/builder/runs.h"

namespace eccl::algorithms {

/// One channel of one rank.
class HostRings {
 public:
  /// The units of every host, by place; at least one for each carrier.
  using Units = std::vector<std::vector<int>>;
  /// The memory of units, given a buffer.
  using UnitsOf = std::function<Reference(Reference buffer, Walk units)>;
  /// A step of a lane of this rank.
  struct Where {
    int lane = 0, step = 0;
  };

  /// `b` and `hosts` outlive this.
  HostRings(Builder& b, const Groups& hosts, int rank, int channel, Units units, UnitsOf unitsOf);

  /// Adds up the input's units over all ranks, each into the output of the rank at its place on its host. Sums
  /// of more than eight pass through `sums`, which needs room for all units where keepsSums(). Returns where a
  /// carrier's own unit becomes final.
  Where sumUp(const Reference& sums);
  bool keepsSums() const;
  /// Brings all units to the outputs of all ranks. A rank's own is in its input; or, if `ready` is given, in
  /// its output from that step on.
  void spread(const Where* ready = nullptr);

 private:
  /// A unit that comes by.
  struct Passing {
    int unit;
    int place;     // on its host
    int round;     // that place / carriers
    int distance;  // in hosts, that it has come from its own; a sum: from the one before it began
  };
  std::vector<Passing> around(int ring, bool sums) const;
  std::vector<Passing> aroundOthers(bool sums) const;
  bool carries() const { return place_ < carriers_; }
  const std::vector<int>& unitsHere() const { return units_[static_cast<size_t>(host_)]; }
  int onRing(int distance) const { return hosts_.member(mod(host_ + distance, hostCount_), place_); }
  /// Connections that something is passed on by: the first of those to this host's ranks, and the next host's.
  struct Onward {
    int locals, next;
  };
  std::vector<int> ends(bool sends, int tag, int until);
  std::vector<Walks> withCarriers(const std::vector<Passing>& units, bool sends, int tag);
  template <class Add>
  void inRuns(const std::vector<int>& units, Add add);
  void contribute();
  Where addUp(const Reference& sums);
  void receiveFromCarriers();
  std::vector<Where> receiveFurther();
  void passOn(const std::vector<int>& units, const Reference& from, const Onward& to, const Where* ready);

  Builder& b_;
  const Groups& hosts_;
  const int channel_, hostCount_, host_, place_, n_, carriers_;
  const Units units_;
  const UnitsOf unitsOf_;
};

}  // namespace eccl::algorithms
