// Points in time of a simulation: with and without what led to them. Only simulate.cc needs them.
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

/// The same with the chain of costs that leads to it.
struct Chain {
  double at = 0;
  CostAmounts amounts{};

  void add(const CostParameters& parameters, CostTerm term, double amount) {
    at += parameters[term] * amount;
    amounts[static_cast<size_t>(term)] += amount;
  }
  void notBefore(const Chain& other) {
    if (other.at > at) *this = other;
  }
  void goOn(const CostParameters& parameters, const Chain& earlier, double times) {
    at += times * (at - earlier.at);
    double explained = 0;
    for (size_t term = 0; term < amounts.size(); ++term) {
      amounts[term] = std::max(0.0, amounts[term] + times * (amounts[term] - earlier.amounts[term]));
      explained += amounts[term] * parameters.values[term];
    }
    // Less than nothing of a term is where another chain has become the longest: what there is explains it all.
    if (explained > 0)
      for (double& amount : amounts) amount *= at / explained;
  }
};

}  // namespace eccl::algorithms::simulation
