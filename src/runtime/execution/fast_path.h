// The fast path: a call prepared so that making it again costs little. Its moves are resolved to places in
// the buffers and to connections.
//
// It is for plans of one tile among ranks that look at the same memory, or that use few sockets, which it
// polls itself. What a short message costs is what surrounds its moves, so all that does not depend on the
// buffers is worked out once. What a move does to its connections is the interpreter's (program/move_ends.h).
// Whatever is out of the ordinary (a message of another call, a peer that has failed, a long wait) is left to
// the interpreter, which is told how far each lane is.
//
// It is prepared by the first blocking call of the plan that finds all connections ready (Engine), and taken
// by later calls with the same CallKey (Communicator::repeat()).
//
// Host memory only: its moves are made by the kernels, on the spot. A call whose buffers another executor
// holds goes on as a Run.
#pragma once

#include <memory>
#include <vector>

#include "base/atomics.h"
#include "base/system.h"
#include "kernels/reduce.h"
#include "program/move_ends.h"
#include "runtime/execution/call.h"
#include "transport/core/connection.h"

namespace eccl::runtime {

struct Plan;
struct Run;

/// A prepared call. Owner: the Plan. Threads: the driver's, but for record() and accepts(). Failure: it has
/// none; whatever goes wrong is left to the Run that it is handed over to.
class FastPath {
 public:
  /// nullptr if the plan is none of this kind, or a connection of it is not ready. `record` is that of the
  /// call, whose number does not matter. By the driver, with the plan bound.
  static std::unique_ptr<FastPath> of(const Call& call, const Plan& plan, const CallRecord& record);

  /// The call's record, to be numbered.
  const CallRecord& record() const { return record_; }
  /// Whether these buffers may be passed without validate(). Any thread.
  bool accepts(const void* send, const void* receive) const;

  /// Starts anew, with host buffers that it accepts(), and offers memory to peers. `signature` is that of the
  /// record, which has been numbered.
  void begin(const void* send, void* receive, uint32_t signature);
  /// Advances until the call is complete (true). False: it takes long, is unusual, or `stop()` says so. Peers
  /// have been told of all that was done, and handOver() goes on from there. `spins`: waits without giving up
  /// the processor.
  template <class Stop>
  bool run(bool spins, System& system, const Stop& stop);
  /// Brings `run`, an execution of the same plan and buffers that has just begun, to where this one is.
  void handOver(Run& run) const;

 private:
  /// Memory of the caller.
  struct Place {
    Space space;
    uint64_t offset;  // bytes into the buffer
  };
  struct Move {
    kernels::ReduceTask task;  // but for the addresses
    interpreter::MoveEnds ends;
    Place sources[kMaxOperands], destinations[kMaxOperands];  // where there is no end
    Outgoing outgoing;
    bool offers;  // the first destination, to the sender of the only source
    int32_t step, repeat;
  };
  struct MovesOfLane {
    size_t begin, end, at;
    int32_t steps;
  };
  /// A message to come; `memory`: what is offered for it ahead, if length is not 0.
  struct Post {
    ReceiveEnd* from;
    Place memory;
    uint32_t length;
  };

  /// A call is worth so many looks before it is treated like any other: 20 to 50 us of spinning, where each
  /// look at sockets takes a system call or two; or some yields.
  static constexpr int kLooks = 500, kLooksAtSockets = 60, kYields = 20;
  /// Peers that do not sleep see a message after less; the fence it takes to find out whether they do can wait.
  static constexpr int kLooksBeforeKick = 8;
  /// So long is a place for a long message waited for (some microseconds).
  static constexpr int kPatientLooks = 100, kPatientYields = 4;

  FastPath() = default;
  bool addLane(const Call& call, const Plan& plan, int lane);
  bool addMove(const Call& call, const Plan& plan, const Step& step, int32_t stepIndex, int32_t repeat,
               bool posts);
  std::byte* memory(const Place& place) const { return buffers_[static_cast<int>(place.space)] + place.offset; }
  enum class Answer : uint8_t { done, moved, blocked, drains, unusual };
  /// Makes every move that can be made. `drains`: all are made, but peers still read what messages refer to.
  /// `unusual` is for the interpreter, which will find the same. `patient`: places for long messages are worth
  /// waiting for.
  Answer advance(bool patient);
  Answer make(Move& move, bool patient);
  /// Makes peers that sleep notice.
  void kick() const;
  /// Sends what was published by sockets, and looks for what has come.
  void sendBySockets() const {
    for (transport::Path* socket : sockets_) socket->kick();
  }
  void pollSockets() const {
    for (transport::Path* socket : sockets_) socket->poll();
  }
  /// All moves are made: tells peers that wait for it what was read.
  void settleSockets() const {
    for (transport::Path* socket : sockets_) socket->settle();
  }

  CallRecord record_;
  bool needsSend_ = false, needsReceive_ = false, needsTwo_ = false;
  std::vector<MovesOfLane> lanes_;
  std::vector<Move> moves_;
  std::vector<Post> posts_;
  std::vector<transport::Connection*> connections_;
  std::vector<transport::Path*> sockets_;  // those of the connections that are not in memory
  std::byte* buffers_[kMemorySpaces] = {};
  uint32_t signature_ = 0;
};

template <class Stop>
bool FastPath::run(bool spins, System& system, const Stop& stop) {
  const int patience = spins ? sockets_.empty() ? kLooks : kLooksAtSockets : kYields;
  for (int looks = 0;;) {
    const Answer answer = advance(looks < (spins ? kPatientLooks : kPatientYields));
    if (answer == Answer::done) break;
    if (answer == Answer::moved) {
      sendBySockets();
      looks = 0;
      continue;
    }
    if (answer == Answer::drains) settleSockets();  // peers drain, too
    if (++looks == (spins ? kLooksBeforeKick : 1)) kick();
    if (answer == Answer::unusual || looks > patience || stop()) {
      kick();
      return false;
    }
    pollSockets();
    if (!spins)
      system.yield();
    else if (sockets_.empty())
      relaxProcessor();
  }
  kick();
  settleSockets();
  return true;
}

}  // namespace eccl::runtime
