// The fast path: a call prepared so that making it again costs little. Its moves are resolved to places in the
// buffers and to connections.
//
// It is for plans of one tile among ranks that look at the same memory. What a short message costs is what
// surrounds its moves, so all that does not depend on the buffers is worked out once. What a move does to its
// connections is the interpreter's (program/move_ends.h). Whatever is out of the ordinary (a message of another
// call, a peer that has failed, a long wait) is left to the interpreter, which is told how far each lane is.
//
// Host memory only: its moves are made by the kernels, on the spot. A call whose buffers another executor holds
// goes on as a Run.
#pragma once

#include <memory>
#include <vector>

#include "kernels/reduce.h"
#include "program/move_ends.h"
#include "runtime/execution/call.h"
#include "transport/core/connection.h"

namespace eccl::runtime {

struct Plan;
struct Run;

/// Owner: the Plan. Threads: the driver's, but for of() and accepts().
class FastPath {
 public:
  /// nullptr if the plan is none of this kind or a connection of it is not ready. Call by its driver.
  static std::unique_ptr<FastPath> of(const Call& call, const Plan& plan, const CallRecord& record);

  /// The call's record, to be numbered.
  const CallRecord& record() const { return record_; }
  /// Whether buffers may be passed without the checks of validate().
  bool accepts(const void* send, const void* receive) const;

  /// Starts anew. The record has been numbered.
  void begin(const void* send, void* receive, uint32_t signature);
  enum class Answer : uint8_t { done, moved, blocked, unusual };
  /// Makes every move that can be made. `unusual` is for the interpreter, which will find the same. `patient`:
  /// places for long messages are worth waiting for.
  Answer advance(bool patient);
  /// Makes peers that sleep notice.
  void kick() const;
  /// Brings `run`, an execution that has just begun, to where this one is.
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

  FastPath() = default;
  bool addLane(const Call& call, const Plan& plan, int lane);
  bool addMove(const Call& call, const Plan& plan, const Step& step, int32_t stepIndex, int32_t repeat,
               bool posts);
  std::byte* memory(const Place& place) const { return buffers_[static_cast<int>(place.space)] + place.offset; }
  Answer make(Move& move, bool patient);

  CallRecord record_;
  bool needsSend_ = false, needsReceive_ = false, needsTwo_ = false;
  std::vector<MovesOfLane> lanes_;
  std::vector<Move> moves_;
  std::vector<Post> posts_;
  std::vector<transport::Connection*> connections_;
  std::byte* buffers_[kMemorySpaces] = {};
  uint32_t signature_ = 0;
};

}  // namespace eccl::runtime
