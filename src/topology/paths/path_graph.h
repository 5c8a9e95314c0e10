// The links of a host as a graph for the search of paths. Internal to paths.cc.
#pragma once

#include <vector>

#include "topology/model/link_model.h"
#include "topology/paths/paths.h"

namespace eccl::topology {

/// One direction of a link, or of several parallel ones taken together.
struct PathEdge {
  int to = Device::kNone;
  LinkKind kind = LinkKind::pci;
  PathType type = PathType::loc;  ///< a way across it is of this type at best
  double gigabytes = 0, microseconds = 0;
};

/// The graph. Nodes are the devices, and behind them the crossbars. A crossbar stands for the NVSwitches that
/// share accelerators: a message may take any of them, so they count as one, and their PCI functions lead to
/// no NVLink. A value, linear in the size of the host. Immutable: any thread.
class PathGraph {
 public:
  explicit PathGraph(const Host& host);

  /// Devices and crossbars.
  int nodes() const { return static_cast<int>(starts_.size()) - 1; }
  /// Nodes below this number are devices, with their indices in Host::devices.
  int devices() const { return static_cast<int>(kinds_.size()); }
  /// Of a node; a crossbar is an nvSwitch.
  DeviceKind kindOf(int node) const { return node < devices() ? kinds_[node] : DeviceKind::nvSwitch; }
  /// The node where an NVSwitch's NVLinks are; of any other device, and of a switch without links, the device.
  int crossbarOf(int device) const { return crossbars_[device]; }
  /// The edges that lead out of a node: [begin(), end()).
  const PathEdge* begin(int node) const { return edges_.data() + starts_[node]; }
  const PathEdge* end(int node) const { return edges_.data() + starts_[node + 1]; }
  /// Whether any edge is of that type.
  bool has(PathType type) const { return (types_ >> static_cast<int>(type) & 1U) != 0; }

 private:
  // Finds the crossbars: sets of NVSwitches that share accelerators.
  void joinSwitches(const Host& host);
  // The best type of a way across a link.
  PathType typeOf(const Link& link) const;

  std::vector<DeviceKind> kinds_;
  std::vector<int> crossbars_;
  int crossbarCount_ = 0;
  std::vector<size_t> starts_;
  std::vector<PathEdge> edges_;
  unsigned types_ = 0;
};

}  // namespace eccl::topology
