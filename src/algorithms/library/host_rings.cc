#include "algorithms/library/host_rings.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "algorithms/library/host_shares.h"

namespace eccl::algorithms {
namespace {

Walk just(int unit) {
  return {unit, 0, 0, 0};
}

}  // namespace

HostRings::HostRings(Builder& b, const Groups& hosts, int rank, int channel, Units units, UnitsOf unitsOf)
    : b_(b),
      hosts_(hosts),
      channel_(channel),
      hostCount_(hosts.number()),
      host_(hosts.groupOf(rank)),
      place_(hosts.placeOf(rank)),
      n_(hosts.size(host_)),
      carriers_(hosts.least()),
      units_(std::move(units)),
      unitsOf_(std::move(unitsOf)) {}

bool HostRings::keepsSums() const {
  return hostCount_ > 1 && carries() && n_ > kPeersPerStep;
}

/// The units of a ring in the order in which they come by this host. What is spread begins with the own
/// host's, what is added up ends with it.
std::vector<HostRings::Passing> HostRings::around(int ring, bool sums) const {
  std::vector<Passing> order;
  size_t most = 0;
  for (const std::vector<int>& ofHost : units_) most = std::max(most, ofHost.size());
  const int nearest = sums ? 1 : 0;
  for (int round = 0, place = ring; place < static_cast<int>(most); ++round, place += carriers_) {
    for (int distance = nearest; distance < nearest + hostCount_; ++distance) {
      const std::vector<int>& theirs = units_[static_cast<size_t>(mod(host_ - distance, hostCount_))];
      if (place < static_cast<int>(theirs.size()))
        order.push_back({theirs[static_cast<size_t>(place)], place, round, distance});
    }
  }
  return order;
}

/// The same of all rings but this rank's own. What is added up goes to the next carriers first, as what is
/// spread comes from those before.
std::vector<HostRings::Passing> HostRings::aroundOthers(bool sums) const {
  std::vector<Passing> all;
  for (int i = 1; i <= carriers_; ++i) {
    const int ring = mod(place_ + (sums ? i : -i), carriers_);
    if (ring == place_) continue;
    const std::vector<Passing> its = around(ring, sums);
    all.insert(all.end(), its.begin(), its.end());
  }
  std::stable_sort(all.begin(), all.end(), [](const Passing& a, const Passing& b) {
    return std::tie(a.round, a.distance) < std::tie(b.round, b.distance);
  });
  return all;
}

/// Adds an end to or from each other rank of this host with a place below `until`: the next ones first, or
/// those before. Returns them by place.
std::vector<int> HostRings::ends(bool sends, int tag, int until) {
  std::vector<int> byPlace(static_cast<size_t>(n_), -1);
  for (int i = 1; i < n_; ++i) {
    const int place = mod(place_ + (sends ? i : -i), n_);
    if (place >= until) continue;
    const int peer = hosts_.member(host_, place);
    byPlace[static_cast<size_t>(place)] =
        sends ? b_.sendTo(peer, channel_, tag) : b_.receiveFrom(peer, channel_, tag);
  }
  return byPlace;
}

/// Begins a lane in which each unit goes to or comes from its carrier on this host: the units, and the ends.
std::vector<Walks> HostRings::withCarriers(const std::vector<Passing>& units, bool sends, int tag) {
  if (units.empty()) return {};
  const std::vector<int> by = ends(sends, tag, carriers_);
  std::vector<Pair> list;
  for (const Passing& unit : units)
    list.push_back({unit.unit, by[static_cast<size_t>(unit.place % carriers_)]});
  b_.lane(channel_);
  return runsOf(list);
}

/// One step for each run of units.
template <class Add>
void HostRings::inRuns(const std::vector<int>& units, Add add) {
  std::vector<Pair> list;
  for (int unit : units) list.push_back({unit, 0});
  for (const Walks& run : runsOf(list)) add(run.first, run.times);
}

HostRings::Where HostRings::sumUp(const Reference& sums) {
  contribute();
  if (carries()) return addUp(sums);
  // The sum of this rank's own unit is its carrier's work.
  if (place_ < static_cast<int>(unitsHere().size())) {
    const int carrier = hosts_.member(host_, place_ % carriers_);
    const Operand from = connection(b_.receiveFrom(carrier, channel_, kDown));
    b_.lane(channel_);
    b_.step({from}, {unitsOf_(output(), just(unitsHere()[static_cast<size_t>(place_)])).posted()});
  }
  return {};
}

/// Sends what the carriers of this host are to add up.
void HostRings::contribute() {
  for (const Walks& run : withCarriers(aroundOthers(true), true, kUp))
    b_.step({unitsOf_(input(), run.first).pre().stable()}, {connections(run.second)}).repeat(run.times);
}

/// Adds the contributions of this host to what comes around the own ring.
HostRings::Where HostRings::addUp(const Reference& sums) {
  const int first = b_.ends();
  ends(false, kUp, n_);
  int next = -1;
  if (hostCount_ > 1) {  // the last of the sources
    b_.receiveFrom(onRing(-1), channel_, kUp);
    next = b_.sendTo(onRing(1), channel_, kUp);
  }
  Where ready{b_.lane(channel_), 0};
  // A unit, of which a host before has begun the sum or not.
  const auto add = [&](Walk units, bool begun, Reference sum, Operand to) {
    const int peers = n_ - 1 + (begun ? 1 : 0);
    Reference raw = unitsOf_(input(), units).pre();
    if (peers == 0 && to.space == Space::connection) raw.stable();
    return reduceAll(b_, raw, first, peers, sum, std::span(&to, 1));
  };
  std::vector<int> middle;
  const auto passMiddle = [&] {
    inRuns(middle, [&](Walk units, int times) {
      if (n_ <= kPeersPerStep) {
        std::vector<Operand> sources = {unitsOf_(input(), units).pre()};
        for (int i = 0; i < n_; ++i) sources.push_back(connection(first + i));
        const Operand to = connection(next);
        b_.step(sources, std::span(&to, 1)).repeat(times);
        return;
      }
      for (int i = 0; i < times; ++i)
        add(just(units.at(i)), true, unitsOf_(sums, just(units.at(i))), connection(next));
    });
    middle.clear();
  };
  for (const Passing& unit : around(place_, true)) {
    const Walk walk = just(unit.unit);
    const bool begun = hostCount_ > 1 && unit.distance > 1;
    if (unit.distance < hostCount_ && begun) {
      middle.push_back(unit.unit);
      continue;
    }
    passMiddle();
    if (unit.distance < hostCount_) {
      add(walk, begun, unitsOf_(sums, walk), connection(next));
    } else if (unit.round == 0) {
      const Reference result = unitsOf_(output(), walk);
      ready.step = add(walk, begun, result, result).post().index();
    } else {
      const int owner = hosts_.member(host_, unit.place);
      add(walk, begun, unitsOf_(sums, walk), connection(b_.sendTo(owner, channel_, kDown))).post();
    }
  }
  passMiddle();
  return ready;
}

void HostRings::spread(const Where* ready) {
  receiveFromCarriers();
  const std::vector<Where> further = receiveFurther();
  if (place_ >= static_cast<int>(unitsHere().size())) return;
  const int locals = b_.ends();
  ends(true, kDown, n_);
  int next = -1, previous = -1;
  if (carries() && hostCount_ > 1) {
    next = b_.sendTo(onRing(1), channel_, kDown);
    previous = b_.receiveFrom(onRing(-1), channel_, kDown);
  }
  b_.lane(channel_);
  const Space own = ready == nullptr ? Space::input : Space::output;
  if (!carries()) {
    passOn({unitsHere()[static_cast<size_t>(place_)]}, Reference(own), {locals, -1}, nullptr);
    return;
  }
  std::vector<int> coming;
  const auto flush = [&](bool on) {
    passOn(coming, connection(previous), {locals, on ? next : -1}, nullptr);
    coming.clear();
  };
  for (const Passing& unit : around(place_, false)) {
    const bool last = unit.distance == hostCount_ - 1;
    if (unit.distance > 0 && !last) {
      coming.push_back(unit.unit);
      continue;
    }
    flush(true);
    if (unit.distance == 0 && unit.round == 0) {
      passOn({unit.unit}, Reference(own), {locals, next}, ready);
    } else if (unit.distance == 0) {
      const Where& there = further[static_cast<size_t>(unit.place)];
      b_.step({unitsOf_(output(), just(unit.unit)).stable()}, {connection(next)}).after(there.lane, there.step);
    } else {
      coming.push_back(unit.unit);
      flush(false);
    }
  }
  flush(true);
}

/// Passes units on, from the rank's memory or a message, to its output, to `next` if there is one, and to all
/// other ranks of the host, in as few steps as can be. The first step waits for `ready`.
void HostRings::passOn(const std::vector<int>& units, const Reference& from, const Onward& to,
                       const Where* ready) {
  const Space space = Operand(from).space;
  const bool on = to.next >= 0, atOnce = (space != Space::output) + on + n_ - 1 <= kMaxOperands;
  const auto memoryOf = [&](Walk walk) {
    return unitsOf_(Reference(space == Space::input ? space : Space::output), walk);
  };
  const auto pass = [&](Walk walk, int times) {
    std::vector<Operand> destinations;
    Reference kept = unitsOf_(output(), walk);
    if (space == Space::connection) kept.posted();
    if (space != Space::output) destinations.push_back(kept);
    if (on) destinations.push_back(connection(to.next));
    for (int i = 0; atOnce && i < n_ - 1; ++i) destinations.push_back(connection(to.locals + i).placed());
    if (destinations.empty()) return;
    Reference source = space == Space::connection ? from : memoryOf(walk);
    if (space != Space::connection && (on || (atOnce && n_ > 1))) source.stable();
    const Operand sources[] = {source};
    auto step = b_.step(sources, destinations).repeat(times);
    if (ready != nullptr) step.after(ready->lane, ready->step);
    ready = nullptr;
  };
  inRuns(units, [&](Walk walk, int times) {
    if (atOnce) return pass(walk, times);
    for (int i = 0; i < times; ++i) {
      const Walk one = just(walk.at(i));
      pass(one, 1);
      auto step = b_.step({memoryOf(one).stable()}, {inTurn(to.locals)}).repeat(n_ - 1);
      if (ready != nullptr) step.after(ready->lane, ready->step);
      ready = nullptr;
    }
  });
}

/// What the other carriers of this host have: their own units, and those that come around their rings.
void HostRings::receiveFromCarriers() {
  std::vector<Passing> units = aroundOthers(false);
  std::erase_if(units, [](const Passing& unit) { return unit.round > 0 && unit.distance == 0; });
  for (const Walks& run : withCarriers(units, false, kDown))
    b_.step({connections(run.second)}, {unitsOf_(output(), run.first).posted()}).repeat(run.times);
}

/// The units of ranks of this host that are no carriers. Returns where they arrive, by place.
std::vector<HostRings::Where> HostRings::receiveFurther() {
  std::vector<Where> arrivals(unitsHere().size());
  for (int place = carriers_, lane = -1; place < static_cast<int>(unitsHere().size()); ++place) {
    if (place == place_) continue;
    const Operand from = connection(b_.receiveFrom(hosts_.member(host_, place), channel_, kDown));
    if (lane < 0) lane = b_.lane(channel_);
    const Walk unit = just(unitsHere()[static_cast<size_t>(place)]);
    arrivals[static_cast<size_t>(place)] = {lane, b_.step({from}, {unitsOf_(output(), unit).posted()}).index()};
  }
  return arrivals;
}

}  // namespace eccl::algorithms
