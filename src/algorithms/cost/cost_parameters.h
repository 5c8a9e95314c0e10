// What moves cost on a machine: the constants of the cost model. simulate.h says how they add up.
//
// A predicted time is a sum of amounts times these constants. That it is linear in them is what lets them be
// fitted to measured times (calibrate.h). All are values; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace eccl::algorithms {

/// Working sets, in bytes, between which the speed of memory is interpolated over their logarithm: about what
/// the private caches, the shared cache and neither hold.
inline constexpr std::array<double, 5> kWorkingSets = {64e3, 1e6, 8e6, 48e6, 256e6};
inline constexpr int kMemoryLevels = static_cast<int>(kWorkingSets.size());

/// Microseconds, unless said otherwise.
enum class CostTerm : int {
  call,                           ///< of a rank's core: to begin and end a call
  fastCall,                       ///< the same for calls that take the fast path: one tile, few sockets
  move,                           ///< of a rank's core: a move, whatever its length
  fastMove,                       ///< the same on the fast path
  notice,                         ///< until a rank that shares memory sees a message
  handOver,                       ///< until a core that ranks share goes on with another of them
  slotWrite,                      ///< per MB: into a slot, which stays in the caches
  slotRead,                       ///< per MB: out of a slot
  networkLatency,                 ///< until a message has arrived at another host, its length aside
  networkSend,                    ///< of the sender's core, a message
  networkReceive,                 ///< of the receiver's core, a message
  networkSendBytes,               ///< of the sender's core, per MB
  networkReceiveBytes,            ///< of the receiver's core, per MB
  rdmaLatency,                    ///< the same between ranks that both use RDMA
  rdmaSend,                       ///< likewise
  rdmaReceive,                    ///< likewise
  rdmaSendBytes,                  ///< likewise
  rdmaReceiveBytes,               ///< likewise
  portBytes,                      ///< of the ports at both ends, per MB
  combine,                        ///< per MB of each source of a move beyond the first
  read,                           ///< per MB of a buffer read, by working set: kMemoryLevels of them
  write = read + kMemoryLevels,   ///< per MB of a buffer written, by working set
  fetch = write + kMemoryLevels,  ///< per MB of another rank's buffer read, by working set
  store = fetch + kMemoryLevels,  ///< per MB of another rank's buffer written, or one that it reads; likewise
  count = store + kMemoryLevels,
};
inline constexpr int kCostTerms = static_cast<int>(CostTerm::count);
/// Of read, write, fetch or store the one for a working set.
constexpr CostTerm atLevel(CostTerm first, int level) {
  return static_cast<CostTerm>(static_cast<int>(first) + level);
}
/// How much each level of memory counts for a working set of so many bytes.
std::array<double, kMemoryLevels> levelsOf(double workingSet);
/// What counts in place of one of the network between ranks that both use RDMA.
constexpr CostTerm byRdma(CostTerm ofNetwork) {
  return static_cast<CostTerm>(static_cast<int>(ofNetwork) + static_cast<int>(CostTerm::rdmaLatency) -
                               static_cast<int>(CostTerm::networkLatency));
}
/// "call", "read.64K", …: as in files (cost_model.h). Not for CostTerm::count.
std::string nameOf(CostTerm term);

/// The constants of one machine.
struct CostParameters {
  std::array<double, kCostTerms> values{};  ///< by CostTerm, none negative

  double operator[](CostTerm term) const { return values[static_cast<size_t>(term)]; }
  double& operator[](CostTerm term) { return values[static_cast<size_t>(term)]; }
  bool operator==(const CostParameters&) const = default;

  /// Where nothing was measured; cost_parameters.cc says where each comes from.
  static CostParameters defaults();
};

}  // namespace eccl::algorithms
