// --report_links: what each rank has sent and received over each of its rails and RDMA ports, and by each other
// path.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/names.h"

namespace eccl::perf {

/// One link of one rank: a network interface, a port of an RDMA device, or a path that has neither, such as
/// shared memory. Plain bytes: gathered from all processes. Texts are cut to fit and end with a zero.
struct LinkRecord {
  char host[48];
  char name[16];  ///< the interface or port, or the path; "" ends a rank's links
  int32_t rank;
  int32_t connections;  ///< sockets, or connections without; 0: a rail that is not used
  uint64_t sent, received;
  uint64_t retransmits;
  uint64_t roundTripMicroseconds;  ///< the longest
  uint64_t slowestRate;  ///< bytes per second of the slowest of the sockets that have sent much; 0: none has
  int32_t slowestPeer;   ///< to this rank
  int32_t more;          ///< links that had no room beside this one
};

/// What a socket must have sent for its rate to say something about the link: short messages go by its latency.
inline constexpr uint64_t kMuchSent = 1'000'000;
/// Of one rank. More than rails can be: the sockets of a rank that has none go by other interfaces.
inline constexpr int kMostLinks = 24;

/// Fills in kMostLinks records at `records`, by the order in which the connections list them.
Outcome readLinks(ecclComm_t comm, int rank, const char* host, LinkRecord* records);

/// The same from what the library has listed.
void sumLinks(const std::vector<ecclConnectionInfo_t>& infos, int rank, const char* host, LinkRecord* records);

}  // namespace eccl::perf
