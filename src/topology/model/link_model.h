// What the facts of a Host mean for messages: the bandwidth and the latency of each of its links.
// docs/topology.md has the table, link_model.cc the source of every number.
//
// Stateless functions, any thread. Bandwidth is what data sees, one way, in GB/s (10^9 bytes); latency is that
// of a small message in microseconds, one way.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

enum class LinkKind : uint8_t {
  pci,       ///< a PCI function and what it hangs below
  network,   ///< a port and its adapter (or the CPU, for an adapter that is not on PCI): as fast as the port
  interCpu,  ///< any two CPUs; one way, as each of the NUMA nodes has one
  nvLink,    // from here on: FabricLink's
  c2c,
  xgmi,
  pciSwitch,
};
const char* nameOf(LinkKind kind);

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

/// GB/s of a PCI Express link, one way, for 256-byte payloads; 0 for a speed or width of 0.
double pciGigabytes(double gigatransfers, int width);

}  // namespace eccl::topology
