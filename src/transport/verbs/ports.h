// The ports of a device, and which GID of a port is used.
#pragma once

#include <infiniband/verbs.h>

#include <optional>
#include <string>
#include <vector>

#include "transport/net/address.h"
#include "transport/verbs/verbs_options.h"

namespace eccl::transport::verbs {

/// What a GID says of how packets travel. v1 only within a subnet; v2 over UDP.
enum class GidKind : uint8_t { infiniband, roce1, roce2 };

/// One entry of a port's table of GIDs.
struct Gid {
  int index = 0;
  GidKind kind = GidKind::infiniband;
  ibv_gid raw{};
  uint32_t interface = 0;  // the number of the network interface whose address it is; 0: not known
  bool isIpv4() const;
  bool isLinkLocal() const;
  /// Packets go between such GIDs: they are of one kind and family, and both are link-local or neither is.
  bool meets(const Gid& other) const;
};
/// As a peer says it; what it says may be wrong.
Gid gidOf(const uint8_t (&raw)[16], uint8_t index, uint8_t kind);
/// "GID 3, RoCE v2, 10.0.1.1".
std::string textOf(const Gid& gid);
/// "10.0.1.1", "[fe80::1]".
std::string hostTextOf(const Gid& gid);
/// The address of a RoCE GID, with port 0.
SocketAddress addressOf(const Gid& gid);

/// A port that is active. A value.
struct Port {
  std::string device;
  uint8_t number = 1;
  uint16_t lid = 0;
  bool ethernet = false;     // RoCE: peers are found by GID
  bool needsGlobal = false;  // packets have to have GIDs, on InfiniBand too
  ibv_mtu mtu = IBV_MTU_1024;
  std::vector<Gid> gids;
  /// "mlx5_0:1".
  std::string text() const { return device + ":" + std::to_string(number); }
};

/// Reads a port. Nothing: it cannot be used, and *why says so.
std::optional<Port> readPort(ibv_context* context, const std::string& device, uint8_t number, std::string* why);

/// The best GID for calls: RoCE v2 before v1, then of the family asked for (IPv4 if none is), then one that is
/// not link-local, then the first. By ECCL_IB_GID_INDEX, if set, that one. Nothing: there is none.
std::optional<Gid> chooseGid(const Port& port, const VerbsOptions& options);
/// What a peer gets to choose from: that one, then of RoCE v2 the best of IPv4 and of IPv6. Others, of v1 or
/// link-local, would lead nowhere if the peer is in another network.
std::vector<Gid> gidsToOffer(const Port& port, const VerbsOptions& options);
inline constexpr size_t kMostGidsToOffer = 3;
/// The best one that meets a peer's, and of those the one whose address is most like the peer's.
std::optional<Gid> gidLike(const Port& port, const Gid& peers, const VerbsOptions& options);

}  // namespace eccl::transport::verbs
