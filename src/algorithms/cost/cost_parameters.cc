#include "algorithms/cost/cost_parameters.h"

#include <cmath>
#include <cstdlib>

#include "base/status.h"

namespace eccl::algorithms {
namespace {

constexpr const char* kNames[] = {"call",
                                  "fast-call",
                                  "move",
                                  "fast-move",
                                  "notice",
                                  "hand-over",
                                  "slot-write",
                                  "slot-read",
                                  "network-latency",
                                  "network-send",
                                  "network-receive",
                                  "network-send-bytes",
                                  "network-receive-bytes",
                                  "rdma-latency",
                                  "rdma-send",
                                  "rdma-receive",
                                  "rdma-send-bytes",
                                  "rdma-receive-bytes",
                                  "port-bytes",
                                  "combine"};
constexpr const char* kByWorkingSet[] = {"read", "write", "fetch", "store"};
constexpr int kNamed = static_cast<int>(CostTerm::read);
static_assert(std::size(kNames) == kNamed);

}  // namespace

std::string nameOf(CostTerm term) {
  const int index = static_cast<int>(term);
  if (index < kNamed) return kNames[index];
  const auto [kind, level] = std::div(index - kNamed, kMemoryLevels);
  return format("%s.%.0fK", kByWorkingSet[kind], kWorkingSets[static_cast<size_t>(level)] / 1e3);
}

std::array<double, kMemoryLevels> levelsOf(double workingSet) {
  std::array<double, kMemoryLevels> weights{};
  size_t above = 0;
  while (above < kWorkingSets.size() && kWorkingSets[above] < workingSet) ++above;
  if (above == 0 || above == kWorkingSets.size()) {
    weights[above == 0 ? 0 : above - 1] = 1;
  } else {
    const double share = std::log(workingSet / kWorkingSets[above - 1]) /
                         std::log(kWorkingSets[above] / kWorkingSets[above - 1]);
    weights[above - 1] = 1 - share;
    weights[above] = share;
  }
  return weights;
}

/// Fitted by calibrate() to calls that `eccl_topo measure` timed on a virtual machine with 2 cores of an AMD
/// EPYC, Linux 6.18, November 2026: 2, 4 and 8 ranks that share memory, 2 and 4 that use TCP on the loopback.
/// They are off by 10 to 36 % (median; 61 % in one of two runs of 8 ranks), most where ranks share cores, but
/// tell algorithms apart (docs/cost_model.md): a machine of one's own is worth its own measurement.
///
/// Those of the network were fitted again on 2026-11-23, on the same kind of machine: 2 and 4 ranks that use
/// TCP on the loopback, and 2 hosts of the lab. They are about the middle of what seven fits gave.
///
/// Those of RDMA are on paper, as no such device was at hand: one way takes about 1.5 us on what is sold today
/// (ib_write_lat), a doorbell and what is executed (docs/rdma.md) 0.3 us on each side. Data that is not copied
/// costs cores nothing; that which lands in slots is read there, at some 20 GB/s.
CostParameters CostParameters::defaults() {
  constexpr double kGigabitsOfAPort = 25;  // assumed: nothing says what network there is
  CostParameters d;
  d[CostTerm::call] = 2.6;
  d[CostTerm::fastCall] = 0.12;
  d[CostTerm::move] = 0.05;
  d[CostTerm::fastMove] = 0.11;
  d[CostTerm::notice] = 0.093;
  d[CostTerm::handOver] = 3.4;
  d[CostTerm::slotWrite] = 16;
  d[CostTerm::slotRead] = 78;
  d[CostTerm::networkLatency] = 5;
  d[CostTerm::networkSend] = 6;
  d[CostTerm::networkReceive] = 6;
  d[CostTerm::networkSendBytes] = 200;
  d[CostTerm::networkReceiveBytes] = 30;
  d[CostTerm::rdmaLatency] = 1.5;
  d[CostTerm::rdmaSend] = 0.3;
  d[CostTerm::rdmaReceive] = 0.3;
  d[CostTerm::rdmaSendBytes] = 0;
  d[CostTerm::rdmaReceiveBytes] = 50;
  d[CostTerm::portBytes] = 8e3 / kGigabitsOfAPort;
  d[CostTerm::combine] = 0;
  // Of the fourth only the sum of reading and writing is known: they come together.
  constexpr std::array<double, kMemoryLevels> kRead = {4.8, 4.1, 9.9, 20, 22}, kWrite = {15, 15, 17, 17, 33},
                                              kFetch = {17, 35, 35, 69, 92}, kStore = {25, 42, 45, 98, 53};
  for (int level = 0; level < kMemoryLevels; ++level) {
    const auto at = static_cast<size_t>(level);
    d.values[static_cast<size_t>(CostTerm::read) + at] = kRead[at];
    d.values[static_cast<size_t>(CostTerm::write) + at] = kWrite[at];
    d.values[static_cast<size_t>(CostTerm::fetch) + at] = kFetch[at];
    d.values[static_cast<size_t>(CostTerm::store) + at] = kStore[at];
  }
  return d;
}

}  // namespace eccl::algorithms
