// The ports that a rank's connections go over.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "transport/verbs/adapter.h"
#include "transport/verbs/registrations.h"

namespace eccl::transport::verbs {

/// A port of this rank that is used, with what belongs to its device.
struct Rail {
  Adapter* adapter = nullptr;
  Registrations* registrations = nullptr;
  Port port;
};

/// The rails of a rank, in the order of devices and ports, which is the same for all ranks of hosts that are
/// alike: rails of a number are taken to be wired to the same switches. Owner: the VerbsTransport.
///
/// The sender of a connection chooses: its channels go round its rails, the one that it best uses first. The
/// receiver takes its rail of that number, modulo its rails, so nothing has to cross from one rail's switches
/// to another's, and ranks of a host that each talk to many use all of its rails.
class Rails {
 public:
  void add(Rail rail) { rails_.push_back(std::move(rail)); }
  /// `nearPorts`: TransportContext's. Rails that it does not name come last. Once, after all are added.
  void order(std::span<const std::string> nearPorts);
  bool empty() const { return rails_.empty(); }
  /// The number of the one over which a channel's messages are sent.
  uint32_t numberFor(int channel) const { return order_[static_cast<size_t>(channel) % order_.size()]; }
  /// Any number may be asked for.
  const Rail& operator[](uint32_t number) const { return rails_[number % rails_.size()]; }
  /// "mlx5_1:1, mlx5_0:1": in the order of use.
  std::string text() const;

 private:
  std::vector<Rail> rails_;
  std::vector<uint32_t> order_;
};

}  // namespace eccl::transport::verbs
