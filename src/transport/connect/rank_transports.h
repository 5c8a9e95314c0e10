// The transports of one rank: those that its communicator may use, made when they are first needed.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "transport/core/transport.h"

namespace eccl::transport {

/// Owner: the Connector. Threads: the driver's, except where said. Failure: a transport that cannot be made
/// says why, once to the log (INFO), and to whoever asks for it.
class RankTransports {
 public:
  static constexpr size_t kNone = SIZE_MAX;

  RankTransports(TransportChoice choice, TransportContext context);
  /// Of those that are allowed, by priority.
  size_t count() const { return choice_.allowed.size(); }
  const TransportEntry& entry(size_t index) const { return *choice_.allowed[index]; }
  /// The transport, made when it is first asked for; owned by this. An error is given again each time.
  Result<Transport*> get(size_t index);
  /// The index of an allowed transport; kNone: it is not allowed here, or unknown.
  size_t find(const std::string& name) const;
  /// The same by transportId().
  size_t find(uint16_t id) const;
  /// The name of a transport that is known here, allowed or not; "?": of none.
  std::string nameOf(uint16_t id) const;
  /// Why this rank does not use a transport that a peer has named: "the receiver's settings forbid it (...)".
  std::string refusal(const std::string& name) const;
  /// "tcp (ECCL_TRANSPORT=shm), ...": those that are forbidden; or nothing.
  std::string forbidden() const;
  /// Lets the transports that poll go on. With each pass of the driver.
  void progress() {
    for (Transport* each : polling_) each->progress();
  }
  const TransportContext& context() const { return context_; }
  TransportContext& context() { return context_; }
  std::string describe(int rank) const { return context_.describe(rank); }
  /// Each range that the user has registered, however often, is told to each transport once, also to those
  /// made later. A range that is not registered any more is taken back from them. Any thread.
  void registerMemory(const MemoryRange& memory);
  void deregisterMemory(const MemoryRange& memory);
  /// As Transport::useMemory(), of all that have been made.
  bool usesMemory() const { return !using_.empty(); }
  void useMemory(const MemoryRange& memory, MemoryFor what, MemoryKind kind, int dmabuf,
                 std::vector<std::unique_ptr<MemoryUse>>* uses);
  void closeAfterFork();

 private:
  struct Made {
    std::unique_ptr<Transport> transport;
    Status failure;
  };
  const TransportChoice choice_;
  TransportContext context_;
  std::vector<Transport*> polling_, using_;
  std::mutex mutex_;  // of what follows; the driver reads made_ without
  std::vector<Made> made_;
  std::map<MemoryRange, int> registered_;  // how often
};

}  // namespace eccl::transport
