// What goes from one kernel of a rank to the next.
#pragma once

#include <map>
#include <memory>

#include "runtime/cuda/call_order.h"
#include "runtime/cuda/neighbourhood.h"
#include "runtime/cuda/reach.h"

namespace eccl::runtime::cuda {

/// The ends of a ring that are one rank's, of all strips, in its GPU's memory.
struct RankEnds {
  Address memory = 0;
  uint32_t filled = 0;
};

/// Owner: the rank's executor, and graphs with calls of the rank. Under the executor's lock, with the GPU's
/// context current. Errors: those of the rings and of the driver.
struct RankState {
  RankState(Gpu& of, std::shared_ptr<Neighbourhood> with, int which)
      : gpu(of), neighbours(std::move(with)), rank(which), order(of), reached(of) {}
  ~RankState();
  RankState(const RankState&) = delete;

  /// The first `width` strips of a ring, at least, whose memory has been offered. May wait for the other rank:
  /// Rings::ring().
  Result<RankEnds*> endsOf(const RingId& id, uint32_t width, const Meeting& meeting, const Rings::Waits& waits);
  /// Offers the buffers of a call to ranks of other processes.
  Status offerBuffers(const Work& work, const Meeting& meeting);

  Gpu& gpu;
  const std::shared_ptr<Neighbourhood> neighbours;
  const int rank;
  std::map<RingId, RankEnds> ends;
  CallOrder order;
  ReachedMemory reached;
};

}  // namespace eccl::runtime::cuda
