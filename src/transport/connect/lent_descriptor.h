// Descriptors that ranks of one host ask each other for, by name, over their AF_UNIX sockets.
//
//   asking → Hello { purpose memory, name }       the handshake proves that both are of the communicator
//   asked  → accepted { descriptor } | refused { why }: there is none | later { why }: it cannot be had now
#pragma once

#include <optional>

#include "transport/net/acceptor.h"
#include "transport/net/dialer.h"

namespace eccl::transport {

/// Whom a thread asks, and as whom.
struct DescriptorCall {
  const Endpoint& endpoint;
  const Secret& secret;
  uint64_t communicator = 0;
  int rank = 0;      ///< the one that asks
  std::string peer;  ///< for messages
};
/// The descriptor of that name, from the rank at the other end. Blocks. Errors: dial()'s, as where the two
/// share no network namespace, or the rank is gone (remote); invalidArgument: it has none of that name; system:
/// it, or this process, has too many descriptors. Not logged.
Result<Fd> fetchDescriptor(const DescriptorCall& call, const DescriptorName& name, const Wait& wait);

/// What such a caller asks for; nothing if it cannot be given any.
std::optional<DescriptorName> namedBy(const Incoming& incoming);
/// Answers, and hangs up. An error is told to the caller; invalidArgument: there is none of that name. Waits
/// for nothing.
void answerWith(Incoming& incoming, Result<Fd> descriptor);

}  // namespace eccl::transport
