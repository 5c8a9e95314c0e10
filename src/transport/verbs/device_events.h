// What a device says of itself: ports that go down, addresses that change, failures.
#pragma once

#include <infiniband/verbs.h>

#include <functional>
#include <string>

#include "transport/core/reactor.h"

namespace eccl::transport::verbs {

/// Watches a device's asynchronous events. Owner: the Adapter. Threads: the driver's.
class DeviceEvents final : public ReadyHandler {
 public:
  enum class Kind : uint8_t {
    deviceLost,   ///< nothing of it can be used any more
    portLost,     ///< nothing over the port goes on
    gidsChanged,  ///< the table of the port has changed
  };
  /// `port`: 0 for a device. `what`: "its state has become PORT_DOWN".
  using Told = std::function<void(Kind kind, uint8_t port, const std::string& what)>;
  DeviceEvents(ibv_context* context, Reactor& reactor, Told told)
      : context_(context), reactor_(reactor), told_(std::move(told)) {}
  ~DeviceEvents() override;
  /// Once. Error (system): they cannot be watched. Not logged.
  Status open();
  void onReady(uint32_t events) override;

 private:
  ibv_context* const context_;
  Reactor& reactor_;
  const Told told_;
  bool watched_ = false;
};

}  // namespace eccl::transport::verbs
