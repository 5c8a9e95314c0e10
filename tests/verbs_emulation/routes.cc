// Who reaches whom, and which memory a key opens.
#include <cstring>

#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {
namespace {

/// Whether `address` leads from `from` to `to`, both Ethernet ports: by a GID of the same type.
bool leadsByGid(const Port& from, const Port& to, const ibv_global_route& address) {
  if (address.sgid_index >= from.gids.size()) return false;
  const GidEntry& own = from.gids[address.sgid_index];
  if (own.empty()) return false;
  for (const GidEntry& each : to.gids) {
    if (each.type == own.type && !each.empty() && std::memcmp(&each.gid, &address.dgid, sizeof each.gid) == 0)
      return true;
  }
  return false;
}

bool leads(const Port& from, const Port& to, const ibv_ah_attr& address) {
  if (from.state != IBV_PORT_ACTIVE || to.state != IBV_PORT_ACTIVE || from.linkLayer != to.linkLayer)
    return false;
  if (from.linkLayer == IBV_LINK_LAYER_INFINIBAND) return to.lid == address.dlid;
  return leadsByGid(from, to, address.grh);
}

/// The entry of its port's table by which a queue pair sends; null if there is none.
const GidEntry* ownGid(QueuePair& pair) {
  const Port* const port = pair.device().port(pair.now.port_num);
  const unsigned index = pair.now.ah_attr.grh.sgid_index;
  return port == nullptr || index >= port->gids.size() ? nullptr : &port->gids[index];
}

/// Whether what `from` sends carries the GIDs that `to` has been connected with.
bool carriesExpectedGids(QueuePair& from, QueuePair& to) {
  if (from.now.ah_attr.is_global == 0 && to.now.ah_attr.is_global == 0) return true;
  const GidEntry *const own = ownGid(from), *const theirs = ownGid(to);
  return own != nullptr && theirs != nullptr && own->type == theirs->type &&
         std::memcmp(&own->gid, &to.now.ah_attr.grh.dgid, sizeof own->gid) == 0;
}

bool within(const Region& region, uint64_t address, uint64_t length) {
  return address >= region.iova && length <= region.length && address - region.iova <= region.length - length;
}

Span spanOf(const Region& region, uint64_t address, uint64_t length) {
  return {static_cast<uint8_t*>(region.addr) + (address - region.iova), length};
}

}  // namespace

QueuePair* peerOf(QueuePair& pair) {
  const auto found = world().pairsByNumber.find(pair.now.dest_qp_num);
  if (found == world().pairsByNumber.end()) return nullptr;
  QueuePair& peer = *found->second;
  if (pair.device().fatal || peer.device().fatal) return nullptr;
  const Port* const from = pair.device().port(pair.now.port_num);
  const Port* const to = peer.device().port(peer.now.port_num);
  return from != nullptr && to != nullptr && leads(*from, *to, pair.now.ah_attr) ? &peer : nullptr;
}

bool answers(QueuePair& peer, QueuePair& pair) {
  return peer.connected() && peer.now.dest_qp_num == pair.qp_num && peer.nextReceive == pair.nextSend &&
         peerOf(peer) == &pair && carriesExpectedGids(pair, peer) && carriesExpectedGids(peer, pair);
}

bool locate(const Domain& domain, const std::vector<ibv_sge>& pieces, unsigned access,
            std::vector<Span>* spans) {
  spans->clear();
  for (const ibv_sge& each : pieces) {
    if (each.length == 0) continue;
    const auto found = world().localKeys.find(each.lkey);
    if (found == world().localKeys.end()) return false;
    const Region& region = *found->second;
    if (region.owner != &domain || (region.access & access) != access ||
        !within(region, each.addr, each.length))
      return false;
    uint64_t& largest = world().counters.largestRegionSent;
    if (access == 0) largest = std::max<uint64_t>(largest, region.length);
    if (access == 0 && region.ofDevice) world().counters.deviceBytesSent += each.length;
    spans->push_back(spanOf(region, each.addr, each.length));
  }
  return true;
}

bool locateRemote(const Domain& domain, uint64_t address, uint64_t length, uint32_t key, unsigned access,
                  std::vector<Span>* spans) {
  const auto found = world().remoteKeys.find(key);
  if (found == world().remoteKeys.end()) return false;
  const Region& region = *found->second;
  if (region.owner != &domain || (region.access & access) != access || !within(region, address, length))
    return false;
  uint64_t& largest = world().counters.largestRegionWritten;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) largest = std::max<uint64_t>(largest, region.length);
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0 && region.ofDevice) world().counters.deviceBytesWritten += length;
  *spans = {spanOf(region, address, length)};
  return true;
}

}  // namespace eccl::verbs_emulation
