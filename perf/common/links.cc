#include "common/links.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace eccl::perf {

void sumLinks(const std::vector<ecclConnectionInfo_t>& infos, int rank, const char* host, LinkRecord* records) {
  std::fill(records, records + kMostLinks, LinkRecord{});
  LinkRecord* const end = records + kMostLinks;
  for (const ecclConnectionInfo_t& info : infos) {
    const bool socket = info.socket >= 0, rail = info.peer < 0;
    const char* const name = info.interface[0] != '\0' ? info.interface
                             : socket || rail          ? "unknown"
                             : info.path[0] != '\0'    ? info.path
                                                       : "unfinished";
    LinkRecord* const link = std::find_if(records, end, [&](const LinkRecord& one) {
      return one.name[0] == '\0' || std::strcmp(one.name, name) == 0;
    });
    if (link == end) {
      ++records[kMostLinks - 1].more;
      continue;
    }
    std::snprintf(link->name, sizeof link->name, "%s", name);
    std::snprintf(link->host, sizeof link->host, "%s", host);
    link->rank = rank;
    if (rail) continue;
    const size_t length = std::strlen(info.local);
    const bool closed = length > 2 && std::strcmp(info.local + length - 2, ":0") == 0;
    link->connections += !closed;
    link->sent += socket ? info.sent : info.sends != 0 ? info.bytes : 0;
    link->received += socket ? info.received : info.sends != 0 ? 0 : info.bytes;
    link->retransmits += info.retransmits;
    link->roundTripMicroseconds = std::max(link->roundTripMicroseconds, info.rtt);
    // What a receiver sends are credits, whose rate says nothing.
    if (info.sends != 0 && info.sent >= kMuchSent && info.rate > 0 &&
        (link->slowestRate == 0 || info.rate < link->slowestRate)) {
      link->slowestRate = info.rate;
      link->slowestPeer = info.peer;
    }
  }
}

// More connections may be made between the two calls, but not when all ranks are through.
Outcome readLinks(ecclComm_t comm, int rank, const char* host, LinkRecord* records) {
  const std::string what = formatted("ecclCommGetConnections on rank %d", rank);
  size_t count = 0;
  TOOLS_TRY(Outcome::library(ecclCommGetConnections(comm, nullptr, &count), comm, what));
  std::vector<ecclConnectionInfo_t> infos(count);
  if (count > 0) {
    infos[0].size = sizeof infos[0];
    TOOLS_TRY(Outcome::library(ecclCommGetConnections(comm, infos.data(), &count), comm, what));
    infos.resize(std::min(count, infos.size()));
  }
  sumLinks(infos, rank, host, records);
  return {};
}

}  // namespace eccl::perf
