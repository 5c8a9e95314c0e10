// Sends and Recvs made together, each by its FastPath: what a group of short messages costs is what surrounds
// each of them.
//
// Messages of one connection follow each other; those of different connections do not wait for each other. A
// Send or a Recv that has a FastPath is one move, so one that is not made has left no trace. Whatever takes
// long, or is unusual, goes on as Runs.
#pragma once

#include <functional>
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
    const void* send;
    void* receive;
    CallRecord record;      // of the call, once it is numbered
    bool made = false;      // its move is
    bool complete = false;  // so is it; else a Run goes on with it
    size_t next = kNone;    // of the same connection
  };

  void clear();
  /// A valid Send or Recv with another rank, by the FastPath of `plan`. False: there are too many
  /// connections for it, or too many that are polled. May throw bad_alloc.
  bool add(const std::shared_ptr<Plan>& plan, const PlainCall& call);
  std::vector<Member>& members() { return members_; }
  /// As FastPath::run(), of all members, which are numbered. True: all are complete, and peers are woken.
  bool run(FastLooks::Manner manner, System& system, const std::function<bool()>& stop);
  FastPath::Wakes wakes() const { return {}; }
  /// As FastPath::handOver(), of a member that is not complete.
  void handOver(const Member& member, Run& run) const;

 private:
  struct Queue {
    FastPath* any;  // of a member: all have the same connection
    transport::Connection* connection;
    size_t first, at, last;  // members; at: the first that is not made
    bool read() const { return !connection->sends() || connection->sendEnd.getsReleased(); }
  };
  bool advance(bool patient, bool* moved, const ReceiveEnd** awaited);
  bool made() const;
  bool read() const;
  void kick() const;

  /// Connections; each message looks for its own among them.
  static constexpr size_t kMostQueues = 64;

  std::vector<Member> members_;
  std::vector<Queue> queues_;
  int polled_ = 0;  // sockets that receive
};

}  // namespace eccl::runtime
