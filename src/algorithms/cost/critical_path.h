// Points in time of a simulation, without and with the critical path that leads to them. Both have the same
// functions, so that the simulation can be instantiated with either. Only simulate.cc needs them.
#pragma once

#include <algorithm>

#include "algorithms/cost/simulate.h"

namespace eccl::algorithms::simulation {

/// A point in time, in microseconds from the beginning of the call.
struct Time {
  double at = 0;

  /// Goes on by the cost of so much of a term.
  void add(const CostParameters& parameters, CostTerm term, double amount) { at += parameters[term] * amount; }
  /// The later of the two.
  void notBefore(const Time& other) { at = std::max(at, other.at); }
  /// Goes on by so many times the way from `earlier` to here: extrapolates what repeats. `times` may be a
  /// fraction.
  void goOn(const CostParameters&, const Time& earlier, double times) { at += times * (at - earlier.at); }
};

/// The same with the costs along the critical path: the longest chain of moves that leads to it.
struct CriticalPath {
  double at = 0;
  CostAmounts amounts{};

  void add(const CostParameters& parameters, CostTerm term, double amount) {
    at += parameters[term] * amount;
    amounts[static_cast<size_t>(term)] += amount;
  }
  void notBefore(const CriticalPath& other) {
    if (other.at > at) *this = other;
  }
  void goOn(const CostParameters& parameters, const CriticalPath& earlier, double times) {
    at += times * (at - earlier.at);
    double explained = 0;
    for (size_t term = 0; term < amounts.size(); ++term) {
      amounts[term] = std::max(0.0, amounts[term] + times * (amounts[term] - earlier.amounts[term]));
      explained += amounts[term] * parameters.values[term];
    }
    // A negative amount means that the critical path changed. It counts as none, and the others explain it all.
    if (explained > 0)
      for (double& amount : amounts) amount *= at / explained;
  }
};

}  // namespace eccl::algorithms::simulation
