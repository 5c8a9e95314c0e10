// Decides which event happens before which, among the moves that touch one piece of data.
//
// Events are added in an order that respects happens-before, each with those it follows directly: the lane's
// previous event, the events its messages were sent by, and what its waits made sure of (L. Lamport, "Time,
// clocks, and the ordering of events in a distributed system", CACM 21(7), 1978). Vector clocks would answer
// any question about them, but need a row of all lanes for each event. Here the questions are few and known
// first: 64 of their earlier events at a time are followed forward, one bit each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eccl::algorithms {

/// Events and questions about them. Owner: one verification, which reuses it piece after piece. Not
/// thread-safe.
class HappensBefore {
 public:
  struct Question {
    int32_t before, after;  // events
    int32_t subject;        // the asker's
  };

  /// Forgets all events and questions; keeps the memory.
  void clear();
  /// Adds the next event and returns its number, from 0. predecessors: numbers of earlier events.
  int32_t add(std::span<const int32_t> predecessors);
  /// Asks whether `before` happens before `after`. `subject` comes back with the question.
  void ask(int32_t before, int32_t after, int32_t subject) { questions_.push_back({before, after, subject}); }
  /// The questions whose answer is no. Stops early once more than `most` elementary operations have been
  /// done.
  std::vector<Question> unordered(int64_t most);
  /// Elementary operations since construction.
  int64_t work() const { return work_; }

 private:
  size_t follow(size_t from);

  std::vector<int32_t> begin_ = {0};  // of each event's predecessors; one more than events
  std::vector<int32_t> predecessors_;
  std::vector<uint64_t> bit_, known_;  // by event, for the batch under way
  std::vector<Question> questions_;
  int64_t work_ = 0;
};

}  // namespace eccl::algorithms
