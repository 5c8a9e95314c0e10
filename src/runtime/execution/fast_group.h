// Sends and Recvs made together, each by its FastPath: what a group of short messages costs is what surrounds
// each of them. Of calls that differ in their buffers alone most of it is done once for all.
//
// Messages of one connection follow each other; those of different connections do not wait for each other. Each
// Send or Recv is one move, so one that is not made has left no trace but in its own memory. Whatever takes
// long, or is unusual, goes on as Runs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/execution/fast_path.h"

namespace eccl::runtime {

/// The calls of one group at a time. Owner: the engine, which uses its memory again. Threads: the driver's.
/// Failure: it has none.
class FastGroup {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  struct Member {
    const std::shared_ptr<Plan>* plan;  // valid while its caller drives
    FastPath* path;                     // the plan's
    CallSeries series;
    CallRecord record;    // of the first call, once it is numbered; the others' follow
    size_t made = 0;      // moves, of the first calls
    size_t complete = 0;  // of the first calls; a Run goes on with each of the others
    size_t next = kNone;  // of the same connection
    /// Of call number `call` of the series.
    CallRecord recordOf(size_t call) const {
      CallRecord its = record;
      its.number(path->shape(), record.sequence + call);
      return its;
    }
  };

  /// Empties it, for calls with these buffers, which stay until it is used no more.
  void begin(std::span<const CallBuffers> buffers);
  /// Valid Sends or Recvs with another rank, by the FastPath of `plan`. False: there are too many
  /// connections for them, or too many that are polled. May throw bad_alloc.
  bool add(const std::shared_ptr<Plan>& plan, const CallSeries& series);
  std::vector<Member>& members() { return members_; }
  /// As FastPath::run(), of all calls, which are numbered. True: all are complete, and peers are woken.
  bool run(FastLooks::Manner manner, System& system, const std::function<bool()>& stop);
  FastPath::Wakes wakes() const { return {}; }
  /// As FastPath::handOver(), of call number `call` of the series, which is not complete.
  void handOver(const Member& member, size_t call, Run& run) const;

 private:
  struct Queue {
    FastPath* any;  // of a member: all have the same connection
    transport::Connection* connection;
    size_t first, at, last;  // members; at: the first of which not all is made
  };
  bool advance(FastLooks::Patience patience, bool* moved, const ReceiveEnd** awaited);
  bool made() const;
  bool read() const;
  void kick() const;

  /// Connections; each message looks for its own among them.
  static constexpr size_t kMostQueues = 64;

  std::span<const CallBuffers> buffers_;
  std::vector<Member> members_;
  std::vector<Queue> queues_;
  int polled_ = 0;  // sockets that receive
};

}  // namespace eccl::runtime
