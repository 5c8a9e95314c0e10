// Making a Clos network: how many switches each tier needs, then hosts, leaves, spines and cores with their
// cables.
#include "topology/model/clos.h"

#include <algorithm>
#include <cmath>

namespace eccl::topology {
namespace {

/// Cables up for `down` GB/s from below, if they are a whole number.
Result<int> cablesUp(const char* tier, double down, double oversubscription, double cable) {
  const double cables = down / oversubscription / cable, whole = std::round(cables);
  if (whole >= 1 && std::abs(cables - whole) < 1e-6 * whole) return static_cast<int>(whole);
  return Status::error(Code::invalidArgument,
                       "clos: %g GB/s from below at %g:1 need %g cables of %g GB/s up from each %s: choose an "
                       "oversubscription that gives whole cables",
                       down, oversubscription, cables, cable, tier);
}

/// The fewest switches that `cables` from each of some switches can be spread over evenly, so that `fits(cables
/// to each one)`; 0: none.
template <class Fits>
int fewestAbove(int cables, Fits fits) {
  for (int count = 1; count <= cables; ++count) {
    if (cables % count == 0 && fits(cables / count)) return count;
  }
  return 0;
}

class Builder {
 public:
  explicit Builder(const ClosShape& shape)
      : shape_(shape),
        ports_(networkPorts(shape.host)),
        rails_(static_cast<int>(ports_.size())),
        pods_((shape.hosts - 1) / shape.hostsPerPod + 1) {}

  Result<Cluster> build() {
    cluster_.types = {shape_.host};
    if (cluster_.types[0].name.empty()) cluster_.types[0].name = "host";
    const int below = std::min(shape_.hosts, shape_.hostsPerPod);
    if (below > shape_.radix)
      return Status::error(Code::invalidArgument,
                           "clos: %d hosts in a pod are more than the %d ports of its leaves", below,
                           shape_.radix);
    if (static_cast<int64_t>(pods_) * rails_ > kMaxSwitches)
      return Status::error(Code::invalidArgument, "clos: %d pods of %d leaves are more than %d switches", pods_,
                           rails_, kMaxSwitches);
    for (int pod = 0; pod < pods_; ++pod) {
      for (int rail = 0; rail < rails_; ++rail) {
        add(format("leaf%d.%d", pod, rail), 1, pod);
        cluster_.switches.back().rail = rail;
      }
    }
    for (int h = 0; h < shape_.hosts; ++h) addHost(h);
    if (pods_ * rails_ > 1) ECCL_TRY(spines());
    ECCL_TRY(validate(cluster_));
    return std::move(cluster_);
  }

 private:
  int add(std::string name, int tier, std::optional<int> pod) {
    cluster_.switches.push_back({std::move(name), tier, shape_.radix, pod, {}, {}});
    return static_cast<int>(cluster_.switches.size()) - 1;
  }
  void join(int a, int b, int count) {
    cluster_.trunks.push_back({a, b, count, shape_.trunkGigabytes, shape_.microseconds});
  }

  void addHost(int h) {
    ClusterHost& host = cluster_.hosts.emplace_back();
    host.name = format("node%d", h);
    const int firstLeaf = h / shape_.hostsPerPod * rails_;
    for (int rail = 0; rail < rails_; ++rail)
      host.uplinks.push_back(
          {ports_[static_cast<size_t>(rail)], firstLeaf + rail, shape_.portGigabytes, shape_.microseconds});
  }

  Status spines() {
    const int radix = shape_.radix, below = std::min(shape_.hosts, shape_.hostsPerPod), leaves = pods_ * rails_;
    ECCL_ASSIGN(const int up, cablesUp("leaf", below * shape_.portGigabytes, shape_.leafOversubscription,
                                       shape_.trunkGigabytes));
    if (below + up > radix)
      return Status::error(Code::invalidArgument,
                           "clos: a leaf needs %d ports for hosts and %d up, but has %d: make pods smaller or "
                           "oversubscribe",
                           below, up, radix);
    const int64_t most = radix;
    if (const int count = fewestAbove(up, [&](int each) { return int64_t{leaves} * each <= most; })) {
      for (int s = 0; s < count; ++s) {
        const int spine = add(format("spine%d", s), 2, {});
        for (int leaf = 0; leaf < leaves; ++leaf) join(leaf, spine, up / count);
      }
      return {};
    }
    return threeTiers(up);
  }

  Status threeTiers(int leafUp) {
    const int64_t radix = shape_.radix;
    Status reason;
    const auto upOf = [&](int each) {
      return cablesUp("spine", rails_ * each * shape_.trunkGigabytes, shape_.spineOversubscription,
                      shape_.trunkGigabytes);
    };
    const int spines = fewestAbove(leafUp, [&](int each) {
      const Result<int> up = upOf(each);
      if (!up.ok()) reason = up.status();
      return up.ok() && int64_t{rails_} * each + *up <= radix;
    });
    if (spines == 0 && !reason.ok()) return reason;
    if (spines == 0)
      return Status::error(Code::invalidArgument,
                           "clos: %d leaves of a pod have more cables than spines of %d ports take", rails_,
                           shape_.radix);
    const int each = leafUp / spines;
    ECCL_ASSIGN(const int up, upOf(each));
    const int cores = fewestAbove(up, [&](int cables) { return int64_t{pods_} * cables <= radix; });
    if (cores == 0)
      return Status::error(
          Code::invalidArgument,
          "clos: %d pods are more than cores of %d ports can join in three tiers: make pods larger", pods_,
          shape_.radix);
    const int firstSpine = static_cast<int>(cluster_.switches.size());
    for (int pod = 0; pod < pods_; ++pod) {
      for (int s = 0; s < spines; ++s) {
        const int spine = add(format("spine%d.%d", pod, s), 2, pod);
        for (int rail = 0; rail < rails_; ++rail) join(pod * rails_ + rail, spine, each);
      }
    }
    for (int s = 0; s < spines; ++s) {
      for (int c = 0; c < cores; ++c) {
        const int core = add(format("core%d.%d", s, c), 3, {});
        cluster_.switches.back().plane = s;
        for (int pod = 0; pod < pods_; ++pod) join(firstSpine + pod * spines + s, core, up / cores);
      }
    }
    return {};
  }

  const ClosShape& shape_;
  const std::vector<int> ports_;
  const int rails_, pods_;
  Cluster cluster_;
};

}  // namespace

std::vector<int> networkPorts(const Host& host) {
  std::vector<int> ports = host.all(DeviceKind::port);
  for (int nic : host.all(DeviceKind::nic)) {
    const bool named = std::any_of(host.devices.begin(), host.devices.end(), [&](const Device& device) {
      return device.kind == DeviceKind::port && device.parent == nic;
    });
    if (!named) ports.push_back(nic);
  }
  std::sort(ports.begin(), ports.end());
  return ports;
}

Result<Cluster> makeClos(const ClosShape& shape) {
  const auto require = [](bool holds, const char* what) {
    return holds ? Status() : Status::error(Code::invalidArgument, "clos: %s", what);
  };
  ECCL_TRY(validate(shape.host));
  ECCL_TRY(require(shape.hosts >= 1 && shape.hosts <= kMaxHosts, "the number of hosts is from 1 to 131072"));
  ECCL_TRY(require(shape.hostsPerPod >= 1, "a pod has one host or more"));
  ECCL_TRY(require(shape.radix >= 2 && shape.radix <= 1024, "the radix of switches is from 2 to 1024"));
  for (double factor : {shape.leafOversubscription, shape.spineOversubscription})
    ECCL_TRY(require(factor >= 1 && factor <= 1024, "oversubscription is from 1 (none) to 1024"));
  for (double speed : {shape.portGigabytes, shape.trunkGigabytes})
    ECCL_TRY(require(speed >= 1e-3 && speed <= 1e6, "the speed of cables is from 0.001 to 1000000 GB/s"));
  ECCL_TRY(require(!networkPorts(shape.host).empty(), "the host has no network port: take one that has"));
  return Builder(shape).build();
}

}  // namespace eccl::topology
