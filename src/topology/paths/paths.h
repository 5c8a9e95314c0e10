// Paths between two devices of a host: what kind a path is, how much it carries, how long it takes.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "topology/model/topology.h"

namespace eccl::topology {

class PathGraph;

/// From best to worst; meaning and order are those of NCCL's PATH_*.
enum class PathType : uint8_t {
  loc,  ///< the same device, or NVSwitches that count as one; an adapter and its ports
  nvl,  ///< NVLink or xGMI: direct, or by NVSwitches
  nvb,  ///< two NVLinks or xGMIs, by one accelerator between
  c2c,  ///< C2C to the CPU
  pix,  ///< PCI, across one bridge at most
  pxb,  ///< PCI, across several bridges but no CPU
  p2c,  ///< an accelerator and a network adapter: C2C to the CPU, PCI from there
  pxn,  ///< an accelerator and a network adapter: NVLink or xGMI to an accelerator that has it by pxb or better
  phb,  ///< PCI by a CPU
  sys,  ///< by several CPUs
  net,  ///< no way inside the host, but both have ports: by the network
  dis,  ///< disconnected: no way that the host knows of
};
const char* nameOf(PathType type);  ///< "LOC", ...

/// The path between two devices. A way carries as much as its slowest link. `gigabytes` (GB/s) is the most
/// that any way of the best type carries. `microseconds` is the least that any way of the best type takes,
/// and `hops` its number of links, the fewest if several take as long. Where ways differ these may belong to
/// different ways: a long message takes the widest, a short one the quickest.
///
/// From a device to itself, and between NVSwitches that count as one: loc, infinite bandwidth, no time.
/// Disconnected: dis, no bandwidth, infinite time. By net: the network counts as one link without time and of
/// any bandwidth, as nothing is known of it.
struct Path {
  PathType type = PathType::dis;
  double gigabytes = 0;
  double microseconds = std::numeric_limits<double>::infinity();
  int hops = 0;
  bool operator==(const Path&) const = default;
};

/// All paths of one host. A way passes bridges, CPUs, NVSwitches and, between ports, adapters. It passes
/// accelerators only as the types nvb and pxn say. Parallel links count as one, and so do NVSwitches with a
/// common accelerator. That traffic shares links is not accounted for.
///
/// Owner: the caller; it keeps no reference to the host. Immutable: any thread, any number at a time. A
/// search from one device visits every link a few times, whatever the number of destinations.
class Paths {
 public:
  /// For a valid host.
  explicit Paths(const Host& host);
  ~Paths();
  Paths(Paths&&) noexcept;
  Paths& operator=(Paths&&) noexcept;

  /// The paths to every device, in the order of Host::devices.
  std::vector<Path> from(int device) const;
  /// The path to one device; it takes as long as from().
  Path between(int from, int to) const;

 private:
  std::unique_ptr<const PathGraph> graph_;
};

}  // namespace eccl::topology
