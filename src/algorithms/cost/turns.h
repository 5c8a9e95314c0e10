// Whose turn it is in a simulation. Only simulate.cc needs it.
//
// Lanes go one after the other, always one that can begin first; one that cannot begin when its turn comes is
// put off. Those that only wait for one of the cores that their machine's ranks share stand in a line: with
// hundreds of ranks on two cores nearly all lanes do, and whenever a core has taken another move all of them
// are put off, which is one change to the line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

namespace eccl::algorithms::simulation {

/// A lane that can begin, or the first of a line.
struct Turn {
  double at = 0;        // when it can begin
  double since = 0;     // of a rank's lanes the one that has waited longest is next, as the engine takes turns
  int64_t order = 0;    // in which they were put off last
  int64_t joined = 0;   // of a line's first: its order when it joined the line
  int lane = 0;         // ~line: the first of that line
  uint32_t ticket = 0;  // of a line: only its latest counts
  int32_t moves = 0;    // of a line: how often it had moved on
  int32_t movesThen = 0;   // … when its first joined it
  bool handsOver = false;  // a core that goes on with the same rank does so
};

/// `Clocks` says what lanes and cores are at. Kept by reference.
template <class Clocks>
class Turns {
 public:
  Turns(const Clocks& clocks, int lanes)
      : clocks_(clocks), turns_(Later{this}), places_(static_cast<size_t>(lanes)) {
    for (int lane = 0; lane < lanes; ++lane) {
      const int rank = clocks.rankOf(lane);
      lanesOf_.resize(std::max(lanesOf_.size(), static_cast<size_t>(rank) + 1));
      lanesOf_[static_cast<size_t>(rank)].push_back(lane);
      lines_.resize(std::max(lines_.size(), static_cast<size_t>(clocks.lineOf(rank) + 1)));
    }
  }
  Turns(const Turns&) = delete;  // the queue's order refers to this
  Turns& operator=(const Turns&) = delete;

  /// The lane can begin then, as far as is known.
  void add(int lane, double at, bool handsOver = false) {
    Turn turn;
    turn.at = at;
    turn.since = clocks_.clockOf(lane);
    turn.order = ++order_;
    turn.lane = lane;
    turn.handsOver = handsOver;
    turns_.push(turn);
  }

  /// The lane, which is put off, waits for nothing but a core, and the one that is free first is another
  /// rank's.
  void standInLine(const Turn& turn) {
    const auto number = static_cast<size_t>(clocks_.lineOf(clocks_.rankOf(turn.lane)));
    Line& line = lines_[number];
    Place place;
    place.lane = turn.lane;
    place.since = clocks_.clockOf(turn.lane);
    place.moves = line.moves;
    // At a time when the line moves on all of it are put off. Who comes before them stays ahead of them.
    const bool moved = line.last.at == turn.at, moves = line.lanes > 0 && line.at == turn.at;
    const int64_t before = moved ? line.before.order : line.last.order;
    if ((moved || moves) && !(turn.handsOver && turn.order > before)) {
      if (moves) ++place.moves;
      place.ahead = -place.moves;
    }
    place.order = (moved || moves) && place.ahead == 0 ? turn.order : ++order_;
    if (!moves) line.at = clocks_.firstCore(number).free.at;
    const bool first = line.lanes == 0 || line.waiting.top() > place;
    line.waiting.push(place);
    ++line.lanes;
    places_[static_cast<size_t>(turn.lane)] = place;
    if (first) call(number);
  }

  /// Whether anybody is next; `turn` says who.
  bool next(Turn& turn) {
    while (!turns_.empty()) {
      turn = turns_.top();
      turns_.pop();
      if (turn.lane >= 0) return true;
      const auto number = static_cast<size_t>(~turn.lane);
      Line& line = lines_[number];
      if (turn.ticket != line.ticket) continue;
      if (clocks_.firstCore(number).free.at > turn.at) {
        moveOn(number, turn.at);
        continue;
      }
      turn.lane = line.waiting.top().lane;
      leave(line, turn.lane);
      if (line.lanes > 0) call(number);
      return true;
    }
    return false;
  }

 private:
  struct Place {
    double since = 0;
    int64_t order = 0;  // when it joined the line
    int32_t ahead = 0;  // -moves of those that came ahead of all the others when the line moved on
    int32_t moves = 0;  // of the line until it joined
    int lane = -1;      // none: it is in no line
    bool operator>(const Place& other) const {
      return std::tie(since, ahead, order) > std::tie(other.since, other.ahead, other.order);
    }
  };
  struct Moved {
    double at = -1;
    int64_t order = 0;
  };
  struct Line {
    std::priority_queue<Place, std::vector<Place>, std::greater<>> waiting;  // and some that have left
    int lanes = 0;                                                           // that have not
    double at = 0;                                                           // when the first can go
    int32_t moves = 0;
    Moved last, before;      // of its moves
    std::vector<Moved> all;  // of them; only where there are several lines
    uint32_t ticket = 0;
  };

  struct Later {
    const Turns* turns;
    bool operator()(const Turn& a, const Turn& b) const {
      const auto one = std::tie(a.at, a.handsOver, a.since), other = std::tie(b.at, b.handsOver, b.since);
      if (one != other) return one > other;
      return a.lane < 0 && b.lane < 0 && a.lane != b.lane ? turns->putOffLater(a, b) : a.order > b.order;
    }
  };

  /// Of two lines' first ones, otherwise equal: where lines have moved on at the same time, those in them were
  /// put off in the order in which they had been put off before.
  bool putOffLater(const Turn& a, const Turn& b) const {
    const auto &one = lines_[static_cast<size_t>(~a.lane)].all,
               &other = lines_[static_cast<size_t>(~b.lane)].all;
    auto i = static_cast<size_t>(a.moves), j = static_cast<size_t>(b.moves);
    const auto first = static_cast<size_t>(a.movesThen), second = static_cast<size_t>(b.movesThen);
    for (; i > first && j > second && one[i - 1].at == other[j - 1].at; --i) --j;
    return (i > first ? one[i - 1].order : a.joined) > (j > second ? other[j - 1].order : b.joined);
  }

  /// The first of the line has its turn among all.
  void call(size_t number) {
    Line& line = lines_[number];
    const Place& first = line.waiting.top();
    Turn turn;
    turn.at = line.at;
    turn.since = first.since;
    turn.order = line.moves > first.moves ? line.last.order : first.order;
    turn.joined = first.order;
    turn.lane = ~static_cast<int>(number);
    turn.ticket = ++line.ticket;
    turn.moves = line.moves;
    turn.movesThen = first.moves;
    turn.handsOver = true;
    turns_.push(turn);
  }

  void leave(Line& line, int lane) {
    places_[static_cast<size_t>(lane)].lane = -1;
    --line.lanes;
    auto hasLeft = [&](const Place& place) {
      const Place& now = places_[static_cast<size_t>(place.lane)];
      return now.lane < 0 || place > now || now > place;
    };
    while (!line.waiting.empty() && hasLeft(line.waiting.top())) line.waiting.pop();
  }

  /// No core is free: all wait for the next. The rank that had that one last need not stand in line for it.
  void moveOn(size_t number, double now) {
    Line& line = lines_[number];
    const auto& core = clocks_.firstCore(number);
    line.before = line.last;
    line.last = {now, ++order_};
    if (lines_.size() > 1) line.all.push_back(line.last);
    ++line.moves;
    line.at = core.free.at;
    spared_.clear();
    for (int lane : lanesOf_[static_cast<size_t>(core.rank)])
      if (const Place& place = places_[static_cast<size_t>(lane)]; place.lane >= 0) spared_.push_back(place);
    std::sort(spared_.begin(), spared_.end(), [](const Place& a, const Place& b) { return b > a; });
    for (const Place& place : spared_) {
      leave(line, place.lane);
      add(place.lane, line.at);
    }
    if (line.lanes > 0) call(number);
  }

  const Clocks& clocks_;
  std::priority_queue<Turn, std::vector<Turn>, Later> turns_;
  std::vector<Line> lines_;
  std::vector<Place> places_;              // by lane
  std::vector<std::vector<int>> lanesOf_;  // by rank
  std::vector<Place> spared_;
  int64_t order_ = 0;
};

}  // namespace eccl::algorithms::simulation
