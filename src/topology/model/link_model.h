// The link model: the bandwidth and the latency of each link of a Host, from the host's facts.
// docs/topology.md has the table, link_model.cc the source of every number.
//
// Threads: stateless functions, any thread. Units: bandwidth is what data sees, one way, in GB/s (10^9
// bytes); latency is that of a small message in microseconds, one way.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

/// What a link is. The first three follow from the tree of devices, the others are FabricLink's.
enum class LinkKind : uint8_t {
  pci,       ///< a PCI function and what it hangs below
  network,   ///< a port and its adapter (or the CPU, for an adapter that is not on PCI): as fast as the port
  interCpu,  ///< any two CPUs; one way, as each of the NUMA nodes has one
  nvLink,    // from here on: FabricLink's
  c2c,
  xgmi,
  pciSwitch,
};
/// A static string, for messages.
const char* nameOf(LinkKind kind);

/// One direction of a link, with what it carries.
struct Link {
  int a = Device::kNone, b = Device::kNone;  ///< from, to: indices into Host::devices
  LinkKind kind = LinkKind::pci;
  double gigabytes = 0;     ///< per second, of all parallel links together
  double microseconds = 0;  ///< to cross it
  const char* source = "";  ///< where the bandwidth comes from, or what was assumed; static
  bool assumed = false;     ///< the host does not say what the bandwidth depends on
};

/// All links of a valid host, each direction by itself: of the tree, between CPUs, and its fabric, in this
/// order and within it in the order of devices and of Host::fabric.
std::vector<Link> linksOf(const Host& host);

/// GB/s of a PCI Express link, one way, for 256-byte payloads. `gigatransfers` are per second and lane,
/// `width` is in lanes. 0 for a speed or width of 0.
double pciGigabytes(double gigatransfers, int width);

}  // namespace eccl::topology
