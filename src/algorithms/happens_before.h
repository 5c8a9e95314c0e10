// Vector clocks over lanes, and what they say about memory cells.
//
// Event = one move of one lane. Order comes from program order within a lane, from waits, and from messages;
// the order that a bounded number of slots would add is left out, so that what is proved holds for any
// number of slots at least the minimum.
//
// Two questions are answered. Are conflicting accesses of a cell ordered? And: when a message hands out a
// reference to a cell instead of a copy, is the next write to that cell ordered after the receiver's read?
//
// Source of the method: L. Lamport, "Time, clocks, and the ordering of events", CACM 1978; F. Mattern,
// "Virtual time and global states of distributed systems", 1988.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace eccl {

using Timestamp = std::vector<uint32_t>;

class HappensBefore {
 public:
  HappensBefore(int lanes, size_t cells) : clocks_(lanes, Timestamp(lanes, 0)), cells_(cells) {}

  /// A new event of a lane.
  void tick(int lane) { ++clocks_[lane][lane]; }
  const Timestamp& now(int lane) const { return clocks_[lane]; }
  /// The lane has learned everything `past` knew.
  void join(int lane, const Timestamp& past) {
    Timestamp& clock = clocks_[lane];
    for (size_t i = 0; i < clock.size(); ++i) clock[i] = clock[i] < past[i] ? past[i] : clock[i];
  }

  /// False if this read is not ordered after the last write.
  bool read(int lane, size_t cell) {
    Cell& at = cells_[cell];
    if (!ordered(lane, at.writer)) return false;
    for (int32_t node = at.readers; node >= 0; node = nodes_[node].next) {
      if (nodes_[node].event.lane == lane) {
        nodes_[node].event.index = clocks_[lane][lane];
        return true;
      }
    }
    at.readers = newNode({{lane, clocks_[lane][lane]}, -1, at.readers});
    return true;
  }

  /// False if this write is not ordered after every earlier access. Exposures whose reader is not known to
  /// be done are reported to `unstable` by the number they were exposed under.
  template <class Unstable>
  bool write(int lane, size_t cell, Unstable&& unstable) {
    Cell& at = cells_[cell];
    bool fine = ordered(lane, at.writer);
    for (int32_t node = at.readers; node >= 0; node = free(node))
      fine = fine && ordered(lane, nodes_[node].event);
    for (int32_t node = at.exposures; node >= 0; node = drop(node)) {
      if (nodes_[node].event.lane < 0 || !ordered(lane, nodes_[node].event)) unstable(nodes_[node].use);
    }
    at = {{lane, clocks_[lane][lane]}, -1, -1};
    return fine;
  }

  /// A message refers to this cell; `use` names who claims that this is safe. Returns a handle for consumed().
  int32_t expose(size_t cell, int32_t use) {
    int32_t node = newNode({{-1, 0}, use, cells_[cell].exposures});
    nodes_[node].held = true;
    return cells_[cell].exposures = node;
  }
  /// The receiver has read what was exposed.
  void consumed(int lane, int32_t handle) {
    Node& node = nodes_[handle];
    node.held = false;
    node.event = {lane, clocks_[lane][lane]};
    if (node.orphan) free(handle);
  }

 private:
  struct Event {
    int32_t lane = -1;
    uint32_t index = 0;
  };
  struct Node {
    Event event;
    int32_t use;
    int32_t next;
    bool held = false;    // a message in flight knows this node
    bool orphan = false;  // its cell was written meanwhile
  };
  struct Cell {
    Event writer;
    int32_t readers = -1, exposures = -1;
  };

  bool ordered(int lane, const Event& event) const {
    return event.lane < 0 || event.lane == lane || clocks_[lane][event.lane] >= event.index;
  }
  int32_t newNode(Node node) {
    if (free_ < 0) {
      nodes_.push_back(node);
      return static_cast<int32_t>(nodes_.size()) - 1;
    }
    int32_t at = free_;
    free_ = nodes_[at].next;
    nodes_[at] = node;
    return at;
  }
  int32_t free(int32_t node) {
    int32_t next = nodes_[node].next;
    nodes_[node].next = free_;
    free_ = node;
    return next;
  }
  int32_t drop(int32_t node) {
    if (!nodes_[node].held) return free(node);
    nodes_[node].orphan = true;
    return nodes_[node].next;
  }

  std::vector<Timestamp> clocks_;
  std::vector<Cell> cells_;
  std::vector<Node> nodes_;
  int32_t free_ = -1;
};

}  // namespace eccl
