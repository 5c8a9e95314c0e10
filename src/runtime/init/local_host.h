// What the host of this process is made of.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/settings.h"
#include "topology/model/topology.h"

namespace eccl::runtime {

/// A host as this process sees it. Constant once made.
struct LocalHost {
  topology::Host host;
  /// Of withoutIdentity(host): hosts that differ only in what makes no difference to a collective have the
  /// same.
  std::array<uint8_t, 16> fingerprint{};
};

/// The machine, or what settings.topoFile says of it. Each is looked at once in the life of the process, when
/// it is first asked for. That takes some milliseconds, in which others who ask, and who fork, wait. Any
/// thread, also of a forked child.
///
/// The machine is looked at by the kernel's files alone, and its drivers are not asked: waking GPUs takes
/// seconds, and a driver that is asked does not survive fork(). Errors say what is wrong with the file, and
/// with which line of it; they are not logged, and the next call looks again.
Result<std::shared_ptr<const LocalHost>> localHost(const Settings& settings);

/// The speed of a network interface in 10^6 bits per second: the host's description's, else what the interface
/// itself says; 0 where neither knows.
uint32_t megabitsOf(const topology::Host& host, const std::string& interface);

/// Writes the host to settings.topoDumpFile, if there is one and it is this rank's to write; the file is
/// complete whenever it is there. What goes wrong is a warning only: nothing depends on the file, and nobody
/// wants to lose a job to it, as with NCCL.
void dumpHost(const topology::Host& host, const Settings& settings, int rank);

}  // namespace eccl::runtime
