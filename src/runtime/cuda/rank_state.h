// What goes from one kernel of a rank to the next.
#pragma once

#include <map>
#include <memory>

#include "runtime/cuda/call_order.h"
#include "runtime/cuda/neighbourhood.h"
#include "runtime/cuda/relay.h"
#include "runtime/cuda/shown_memory.h"

namespace eccl::runtime::cuda {

/// Owner: the rank's executor, and graphs with calls of the rank. Under the executor's lock, with the GPU's
/// context current. Errors: those of the rings and of the driver.
struct RankState {
  RankState(Gpu& of, std::shared_ptr<Neighbourhood> with, int which, Relay::Ways ways)
      : gpu(of),
        neighbours(std::move(with)),
        rank(which),
        order(of),
        shown(of),
        relay(of, which, std::move(ways)) {}
  ~RankState();
  RankState(const RankState&) = delete;

  /// The ends of a ring that are this rank's: of the first `width` strips at least, whose memory has been
  /// offered. May wait for the other rank: Rings::ring().
  Result<lanes::End*> endsOf(const RingId& id, uint32_t width, const Meeting& meeting,
                             const Rings::Waits& waits);
  /// Whether endsOf() would wait for nothing.
  bool hasEnds(const RingId& id, uint32_t width) const;
  /// Shows ranks of other processes the buffers of a call, which may tell them of these.
  Status showBuffers(const Work& work, const Meeting& meeting);

  Gpu& gpu;
  const std::shared_ptr<Neighbourhood> neighbours;
  const int rank;
  /// Of all strips, in the GPU's memory.
  struct Ends {
    Address memory = 0;
    uint32_t filled = 0;
  };
  std::map<RingId, Ends> ends;
  CallOrder order;
  ShownMemory shown;
  Relay relay;
};

}  // namespace eccl::runtime::cuda
