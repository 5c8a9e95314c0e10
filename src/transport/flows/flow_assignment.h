// Which of its ways each flow takes, so that no link has more flows than it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace eccl::transport {

/// Names a link of the fabric; the caller's numbering.
using LinkName = uint64_t;
/// How many flows take each link.
using LinkLoads = std::map<LinkName, uint32_t>;

/// One flow: the links of each way that it can take, one of which is to be chosen. At least one way.
struct FlowChoice {
  std::vector<std::vector<LinkName>> ways;
};

/// The number of a way for each flow, in the order of `flows`. Adds them to `loads`, which holds the flows that
/// are there already. Minimises the sum of the squares of loads, which is least where flows are spread evenly:
/// the flows with the fewest ways first each take the cheapest, then any flow, or pair of flows, that can do
/// better changes, until none can. So the result is a local optimum. Deterministic; no randomness.
///
/// What opens flows does not matter: TCP connections by their source ports, or RDMA queue pairs by the UDP
/// source ports of RoCE.
std::vector<size_t> assignFlows(std::span<const FlowChoice> flows, LinkLoads* loads);

}  // namespace eccl::transport
