// Which of its ways each flow takes, so that no link has more flows than it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace eccl::transport {

/// Names a link of the fabric; the caller's numbering.
using LinkName = uint64_t;
/// How many flows are on each link, and how many of each source. Absent: none.
struct LinkLoads {
  std::map<LinkName, uint32_t> flows;
  std::map<std::pair<LinkName, int>, uint32_t> ofSource;
  void add(const std::vector<LinkName>& way, int source);
  void remove(const std::vector<LinkName>& way, int source);
};

/// One flow: who sends it, and the links of each way that it can take, one of which is to be chosen. At least
/// one way.
struct FlowChoice {
  int source = 0;
  std::vector<std::vector<LinkName>> ways;
  size_t now = SIZE_MAX;  ///< the way that it takes already; SIZE_MAX: none yet
};

/// The number of a way for each flow, in the order of `flows`. Minimises the sum of the squares of the numbers
/// of flows on a link, which is least where flows are spread evenly; where that is equal, the number of links
/// that each source uses: flows of one source never send more than it can, so they do not meet in time, while
/// those of several may. Flows that have a way begin there. The others, those with the fewest ways first, each
/// take the cheapest. Then any flow, or pair of flows, that can do better changes, until none can. So the
/// result is a local optimum. Deterministic; no randomness.
///
/// What opens flows does not matter: TCP connections by their source ports, or RDMA queue pairs by the UDP
/// source ports of RoCE.
std::vector<size_t> assignFlows(std::span<const FlowChoice> flows);

}  // namespace eccl::transport
