// Which executors there are, and which one a call is for.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor/executor.h"
#include "runtime/executor/gpu_memory.h"

namespace eccl::runtime {

/// How a communicator gets an executor of one kind.
struct ExecutorKind {
  std::string name;
  /// Called once for each communicator. Null: there is no such memory here, and the communicator goes without.
  /// An error fails the communicator.
  std::function<Result<std::shared_ptr<Executor>>(const ExecutorContext&)> make;
  /// Of a device: `bytes` of its memory for the user. What gives it back waits for all that the device still
  /// does. Error (device): there is not so much.
  struct UserMemory {
    void* memory;
    std::function<Status()> free;
  };
  std::function<Result<UserMemory>(size_t bytes)> allocate;
};

/// Adds a kind to the table of this process, in which the product has "host" alone. Communicators made from
/// now on have it. Of several kinds that hold an address, the one added last takes it; host takes what no
/// other holds. Any thread.
void addExecutorKind(ExecutorKind kind);
/// Takes it out again. Communicators that have it keep it.
void removeExecutorKind(const std::string& name);

/// A communicator's executors, one of each kind. Owner: the engine. Constant once open; then any thread.
class Executors {
 public:
  /// Makes them all, once. `context`: but for the host's, which is made here. `device`: of a communicator of
  /// that kind. Error: an ExecutorKind::make()'s; logged.
  Status open(ExecutorContext context, const std::optional<ExecutorKind>& device);
  /// The one for a call with these buffers, of which a null one counts for nothing. It lives as long as this.
  /// Error (invalidArgument): they are of two kinds, or not the device's. Not logged.
  Result<Executor*> of(const void* send, const void* receive) const;
  /// Whether calls may use this memory. Error (invalidArgument): it is not the device's, or the host's, in a
  /// sentence that begins with "the", `what` and the address; (device): the device does not say. Not logged.
  Status admit(const char* what, const void* address) const;
  /// Of a device's communicator; else null.
  const std::shared_ptr<Executor>& device() const { return device_; }
  Executor& host() const { return *host_; }
  /// Whether a call with these buffers is the host's.
  bool onHost(const void* send, const void* receive) const { return hostAlone_ || areOnHost(send, receive); }

 private:
  bool areOnHost(const void* send, const void* receive) const;
  Executor& ofAddress(const void* address) const;

  std::shared_ptr<Executor> host_;
  std::shared_ptr<Executor> device_;
  std::vector<std::shared_ptr<Executor>> others_;  // all but the host's
  bool hostAlone_ = false;                         // there is no other memory than its
  GpuMemory gpuMemory_;                            // of a host communicator, which has no executor for it
};

}  // namespace eccl::runtime
