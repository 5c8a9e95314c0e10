// The 128 bytes that ecclGetUniqueId gives out and every rank brings to ecclCommInitRank.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/net/endpoint.h"

namespace eccl::transport {

/// Plain value: which communicator, its secret, and where its rendezvous root listens.
/// Layout of the 128 bytes: "ECCL", version u16, flags u16, communicator u64, secret 16, address count u8,
/// addresses (as many as fit: at least 4, mostly more), zeros, checksum u32 over all before.
struct UniqueId {
  static constexpr size_t kBytes = 128;
  using Bytes = std::array<char, kBytes>;

  uint64_t communicator = 0;
  Secret secret;
  /// True for the HOST:PORT form: nobody listens yet, rank 0 has to start the root on addresses[0].port().
  bool rootByRank0 = false;
  std::vector<SocketAddress> addresses;

  static UniqueId random(System& system);  ///< communicator and secret; no addresses
  /// Equal ids give equal bytes. Addresses for which there is no room are left out.
  Bytes encode() const;
  /// Error (invalidArgument) with what is wrong, for anything that encode() did not make. Logged.
  static Result<UniqueId> decode(const Bytes& bytes);

  /// The root as dial() takes it. Its identity follows from communicator and secret.
  Endpoint root() const;
};

/// The other way to agree on an id: ECCL_COMM_ID (NCCL_COMM_ID) set alike on every rank.
struct CommIdSettings {
  std::string commId;  ///< ECCL_COMM_ID: HOST:PORT of rank 0, or [IPV6]:PORT
  std::string secret;  ///< ECCL_COMM_SECRET: 32 hexadecimal digits, or empty
  std::string
      secretFile;  ///< ECCL_COMM_SECRET_FILE: a file with those digits, mode 0600, owned by the user; or empty
  int family = AF_UNSPEC;  ///< ECCL_SOCKET_FAMILY
};

/// The same id on every rank that has the same settings. May block in the resolver. Communicators created one
/// after the other from the same settings have the same `communicator`. Errors say which setting is wrong and
/// how to put it right. Logged.
Result<UniqueId> uniqueIdFromSettings(const CommIdSettings& settings);

}  // namespace eccl::transport
