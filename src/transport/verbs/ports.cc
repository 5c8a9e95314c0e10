#include "transport/verbs/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "base/status.h"
#include "transport/net/stream.h"

namespace eccl::transport::verbs {
namespace {

in6_addr ipv6Of(const Gid& gid) {
  in6_addr address;
  std::memcpy(&address, gid.raw.raw, sizeof address);
  return address;
}

GidKind kindOf(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V2) return GidKind::roce2;
  return type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce1 : GidKind::infiniband;
}

/// How many bytes the addresses of both begin with in common: those of one network have many.
int inCommon(const Gid& one, const Gid& other) {
  const auto [end, unused] =
      std::mismatch(std::begin(one.raw.raw), std::end(one.raw.raw), std::begin(other.raw.raw));
  return static_cast<int>(end - std::begin(one.raw.raw));
}

/// Of those that `fits`, the first in the order of chooseGid(), but nearest to `peers` if that is known.
template <class Fits>
std::optional<Gid> best(const Port& port, const VerbsOptions& options, const Gid* peers, const Fits& fits) {
  const bool wantsIpv4 = options.family != "AF_INET6";
  const auto rank = [&](const Gid& gid) {
    return std::tuple(gid.kind != GidKind::roce2, gid.isIpv4() != wantsIpv4, gid.isLinkLocal(),
                      peers != nullptr ? -inCommon(gid, *peers) : 0, gid.index);
  };
  std::optional<Gid> found;
  for (const Gid& gid : port.gids) {
    if (options.gidIndex >= 0 && gid.index != options.gidIndex) continue;
    if (fits(gid) && (!found.has_value() || rank(gid) < rank(*found))) found = gid;
  }
  return found;
}

std::string addressText(const Gid& gid) {
  char address[INET6_ADDRSTRLEN] = "?";
  if (gid.isIpv4())
    inet_ntop(AF_INET, gid.raw.raw + 12, address, sizeof address);
  else
    inet_ntop(AF_INET6, gid.raw.raw, address, sizeof address);
  return address;
}

}  // namespace

bool Gid::isIpv4() const {
  const in6_addr address = ipv6Of(*this);
  return IN6_IS_ADDR_V4MAPPED(&address);
}

bool Gid::isLinkLocal() const {
  const in6_addr address = ipv6Of(*this);
  return IN6_IS_ADDR_LINKLOCAL(&address);
}

bool Gid::meets(const Gid& other) const {
  return kind == other.kind && isIpv4() == other.isIpv4() && isLinkLocal() == other.isLinkLocal();
}

Gid gidOf(const uint8_t (&raw)[16], uint8_t index, uint8_t kind) {
  Gid gid{index, static_cast<GidKind>(std::min<uint8_t>(kind, 2)), {}, 0};
  std::memcpy(gid.raw.raw, raw, sizeof raw);
  return gid;
}

std::string textOf(const Gid& gid) {
  const char* const kinds[] = {"InfiniBand", "RoCE v1", "RoCE v2"};
  return format("GID %d, %s, %s", gid.index, kinds[static_cast<int>(gid.kind)], addressText(gid).c_str());
}

SocketAddress addressOf(const Gid& gid) {
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_addr = ipv6Of(gid);
  if (!gid.isIpv4()) return SocketAddress::from(reinterpret_cast<const sockaddr*>(&ipv6));
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  std::memcpy(&ipv4.sin_addr, gid.raw.raw + 12, sizeof ipv4.sin_addr);
  return SocketAddress::from(reinterpret_cast<const sockaddr*>(&ipv4));
}

std::string hostTextOf(const Gid& gid) {
  return addressOf(gid).hostText();
}

std::optional<Port> readPort(ibv_context* context, const std::string& device, uint8_t number,
                             std::string* why) {
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(context, number, &attributes); error != 0) {
    *why = "it cannot be asked: " + describeError(error);
    return std::nullopt;
  }
  if (attributes.state != IBV_PORT_ACTIVE) {
    *why = format("its state is %s", ibv_port_state_str(attributes.state));
    return std::nullopt;
  }
  Port port;
  port.device = device;
  port.number = number;
  port.lid = attributes.lid;
  port.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  port.needsGlobal = (attributes.flags & IBV_QPF_GRH_REQUIRED) != 0;
  port.mtu = attributes.active_mtu;
  constexpr int kMostGids = 256;  // a request has 8 bits for the index
  for (int index = 0; index < std::min(attributes.gid_tbl_len, kMostGids); ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, number, static_cast<uint32_t>(index), &entry, 0) != 0) continue;  // empty
    port.gids.push_back({index, kindOf(entry.gid_type), entry.gid, entry.ndev_ifindex});
  }
  if (port.ethernet && port.gids.empty()) {
    *why = "it has no GID: its network interface needs an address";
    return std::nullopt;
  }
  return port;
}

std::optional<Gid> chooseGid(const Port& port, const VerbsOptions& options) {
  return best(port, options, nullptr, [](const Gid&) { return true; });
}

std::optional<Gid> gidLike(const Port& port, const Gid& peers, const VerbsOptions& options) {
  return best(port, options, &peers, [&](const Gid& gid) { return gid.meets(peers); });
}

std::vector<Gid> gidsToOffer(const Port& port, const VerbsOptions& options) {
  std::vector<Gid> all;
  const auto isAnother = [&](const Gid& gid) {
    if (all.empty()) return true;
    return gid.kind == GidKind::roce2 && !gid.isLinkLocal() &&
           std::none_of(all.begin(), all.end(), [&](const Gid& taken) { return gid.meets(taken); });
  };
  while (const auto next = best(port, options, nullptr, isAnother)) all.push_back(*next);
  return all;
}

}  // namespace eccl::transport::verbs
