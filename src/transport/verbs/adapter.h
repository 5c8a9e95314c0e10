// An RDMA device that a rank has opened.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "transport/core/transport.h"
#include "transport/verbs/completion_queues.h"
#include "transport/verbs/device_events.h"
#include "transport/verbs/handles.h"
#include "transport/verbs/ports.h"

namespace eccl::transport::verbs {

/// What can happen to a user of a port.
class PortUser {
 public:
  virtual ~PortUser() = default;
  /// The GID that it uses.
  virtual const Gid& gid() const = 0;
  virtual uint8_t port() const = 0;
  /// The port's address when it began, on InfiniBand.
  virtual uint16_t lid() const = 0;
  /// Nothing over the port goes on: "port 1 of the RDMA device rxea of rank 1 (host pid 12): port error". May
  /// not end the user.
  virtual void onPortLost(const std::string& why) = 0;
};

/// Memory that a device may read, or that peers may write to, as `access` says. Error (system): names size,
/// device and limit. Not logged.
Result<MemoryHandle> registerWith(ibv_pd* domain, void* memory, size_t bytes, int access);

/// The same; where the device refuses, again when `giveBack` has given up memory that is locked and not used.
/// False: there is none.
Result<MemoryHandle> registerUsers(ibv_pd* domain, const MemoryRange& memory, int access,
                                   const std::function<bool()>& giveBack);

/// Memory of another device, such as a GPU, by a descriptor of all of it (a dma-buf); where that cannot be, as
/// peer memory, which takes a module of that device's driver (nvidia-peermem). Requests name it by its
/// addresses. Error (system): names size, device and what to do. Not logged.
Result<MemoryHandle> registerDevices(ibv_pd* domain, const MemoryRange& memory, int access, int dmabuf);

/// Context, protection domain and completions of one device. Owner: the VerbsTransport. Threads: the driver's.
class Adapter {
 public:
  /// `ports`: those that are to be used. `owner`: "rank 1 (host pid 12)", for messages. Error (system): what
  /// the device refuses. Not logged.
  static Result<std::unique_ptr<Adapter>> open(ContextHandle context, std::vector<Port> ports, Reactor& reactor,
                                               const std::string& owner);
  const std::vector<Port>& ports() const { return ports_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  CompletionQueues& completions() { return completions_; }
  /// Error (system): the device has failed. Not logged.
  Status join(PortUser* user);
  void leave(PortUser* user) { users_.erase(user); }
  bool isUsed() const { return !users_.empty(); }
  /// Tells users what the device has said and nobody has read: what breaks a request often says why there.
  void lookAtEvents() { events_.onReady(0); }
  /// What is left of the time for which paths wait until their last words have gone, all together.
  Duration forLastWords = std::chrono::milliseconds(300);
  void closeAfterFork();

 private:
  Adapter(ContextHandle context, std::vector<Port> ports, Reactor& reactor, const std::string& owner);
  void onEvent(DeviceEvents::Kind kind, uint8_t port, const std::string& what);

  ContextHandle context_;
  const std::vector<Port> ports_;
  const std::string owner_;
  DomainHandle domain_;
  CompletionQueues completions_;
  DeviceEvents events_;
  std::set<PortUser*> users_;
  std::string lost_;  // how the device has failed
};

}  // namespace eccl::transport::verbs
