// How a connection over RDMA is set up.
#pragma once

#include "transport/core/transport.h"
#include "transport/verbs/verbs_sender.h"

namespace eccl::transport::verbs {

/// A port of this rank that is used, with what belongs to its device.
struct Rail {
  Adapter* adapter = nullptr;
  Registrations* registrations = nullptr;
  Port port;
};

/// One end's memory and queue pair, until open() makes the path out of them. Both ranks take the rail whose
/// number is the connection's channel, modulo their rails, so that rails of hosts that are alike meet their
/// like.
struct VerbsEnd {
  const TransportContext* context = nullptr;
  const Rail* rail = nullptr;
  RingShape shape;
  RingMemory memory;
  MemoryHandle ring;
  std::unique_ptr<QueuePair> queue;

  /// `peers`: the GID to be talked to; nullptr: not known yet. Error: what the device refuses, or that there is
  /// no GID for it. Not logged.
  Status make(const TransportContext& its, const Rail& over, const Gid* peers, bool sends,
              const VerbsOptions& options);
  /// Of a receiver's.
  LandingPlace landing() const;
  VerbsPath::Wiring wire(Opening& opening);
};

/// Begins as the sender: an offer with the address of its queue pair.
Result<std::unique_ptr<Offer>> offerVerbs(const TransportContext& context, const Rail& rail,
                                          const VerbsOptions& options, SetupData* offer);
/// The receiver's answer has the address of its own, and the landing place.
Result<std::unique_ptr<Acceptance>> acceptVerbs(const TransportContext& context, const Rail& rail,
                                                const VerbsOptions& options, const SetupData& offer,
                                                SetupData* answer);

}  // namespace eccl::transport::verbs
