// Points in time of a simulation, without and with the critical path that leads to them. Only simulate.cc needs
// them.
#pragma once

#include <algorithm>

#include "algorithms/cost/simulate.h"

namespace eccl::algorithms::simulation {

/// A point in time.
struct Time {
  double at = 0;

  void add(const CostParameters& parameters, CostTerm term, double amount) { at += parameters[term] * amount; }
  void notBefore(const Time& other) { at = std::max(at, other.at); }
  /// Goes on as from `earlier` to here, so many times.
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
