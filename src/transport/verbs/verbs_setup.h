// How a connection over RDMA is set up.
#pragma once

#include "transport/core/transport.h"
#include "transport/verbs/rails.h"
#include "transport/verbs/verbs_sender.h"

namespace eccl::transport::verbs {

/// Of an end's queue pairs, in their order. As it lies in memory.
struct QueueAddresses {
  static constexpr uint32_t kMost = 16;
  uint32_t count, unused;
  QueueAddress queues[kMost];
};

/// One end's memory and queue pairs, until open() makes the path out of them.
struct VerbsEnd {
  const TransportContext* context = nullptr;
  const Rail* rail = nullptr;
  RingShape shape;
  RingMemory memory;
  MemoryHandle ring;
  std::vector<std::unique_ptr<QueuePair>> queues;

  /// `count`: of queue pairs. `from`: the GID that they go from. Error: what the device refuses. Where it
  /// refuses memory, what is cached is given back. Not logged.
  Status make(const TransportContext& its, const Rail& over, const Gid& from, bool sends, size_t count,
              const VerbsOptions& options);
  QueueAddresses addresses() const;
  /// To the peer's, of which there may be fewer. Error (remote): there are none, or it is
  /// QueuePair::connect()'s.
  Status connect(const QueueAddresses& peers);
  /// Of a receiver's.
  LandingPlace landing() const;
  VerbsPath::Wiring wire(Opening& opening);

 private:
  Status tryToMake(const TransportContext& its, const Rail& over, const Gid& from, bool sends, size_t count,
                   const VerbsOptions& options);
};

/// Begins as the sender: an offer with the number of its rail, its GIDs, and the addresses of its queue pairs.
Result<std::unique_ptr<Offer>> offerVerbs(const TransportContext& context, const Rails& rails, int channel,
                                          const VerbsOptions& options, SetupData* offer);
/// The receiver's answer says which of the GIDs meets one of its own, and has the addresses of its queue pairs
/// and the landing place.
Result<std::unique_ptr<Acceptance>> acceptVerbs(const TransportContext& context, const Rails& rails,
                                                const VerbsOptions& options, const SetupData& offer,
                                                SetupData* answer);

}  // namespace eccl::transport::verbs
