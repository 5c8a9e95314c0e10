#include "algorithms/cost_parameters.h"

#include <cstdlib>

#include "base/status.h"

namespace eccl {
namespace {

constexpr const char* kNames[] = {"call",
                                  "short-call",
                                  "move",
                                  "short-move",
                                  "notice",
                                  "hand-over",
                                  "slot-write",
                                  "slot-read",
                                  "network-latency",
                                  "network-send",
                                  "network-receive",
                                  "network-send-bytes",
                                  "network-receive-bytes",
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

/// Fitted by calibrate() to calls that `eccl_topo measure` timed on a virtual machine with 2 cores of an AMD
/// EPYC, Linux 6.18, November 2026: 2, 4 and 8 ranks that share memory, 2 and 4 that use TCP on the loopback.
/// They are off by 13 to 53 % (median), most where ranks share cores, but tell algorithms apart
/// (docs/cost_model.md): a machine of one's own is worth its own measurement.
CostParameters CostParameters::defaults() {
  constexpr double kGigabitsOfAPort = 25;  // assumed: nothing says what network there is
  CostParameters d;
  d[CostTerm::call] = 1.5;
  d[CostTerm::shortCall] = 0.07;
  d[CostTerm::move] = 0.25;
  d[CostTerm::shortMove] = 0.19;
  d[CostTerm::notice] = 0.31;
  d[CostTerm::handOver] = 3.9;
  d[CostTerm::slotWrite] = 59;
  d[CostTerm::slotRead] = 73;
  d[CostTerm::networkLatency] = 43;
  d[CostTerm::networkSend] = 16;
  d[CostTerm::networkReceive] = 15;
  d[CostTerm::networkSendBytes] = 240;
  d[CostTerm::networkReceiveBytes] = 136;
  d[CostTerm::portBytes] = 8e3 / kGigabitsOfAPort;
  d[CostTerm::combine] = 0;
  // Beyond 48 MB nothing was measured: as there.
  constexpr std::array<double, kMemoryLevels> kRead = {21, 9.4, 26, 27, 27}, kWrite = {12, 16, 19, 22, 22},
                                              kFetch = {7, 44, 34, 78, 78}, kStore = {40, 51, 46, 108, 108};
  for (int level = 0; level < kMemoryLevels; ++level) {
    const auto at = static_cast<size_t>(level);
    d.values[static_cast<size_t>(CostTerm::read) + at] = kRead[at];
    d.values[static_cast<size_t>(CostTerm::write) + at] = kWrite[at];
    d.values[static_cast<size_t>(CostTerm::fetch) + at] = kFetch[at];
    d.values[static_cast<size_t>(CostTerm::store) + at] = kStore[at];
  }
  return d;
}

}  // namespace eccl
