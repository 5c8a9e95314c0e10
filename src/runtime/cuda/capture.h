// Graphs: what a call has to know of the capture that it is made in, and what lives as long as the graph.
//
// A captured call is put into the graph instead of being made, and made again each time the graph runs, without
// the library being asked. So what it uses belongs to the graph, too: it may outlive its communicator.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/cuda/gpu.h"

namespace eccl::runtime::cuda {

/// A capture that goes on, or none. Streams of one have the same id; no two captures do.
struct Capture {
  uint64_t id = 0;
  Graph graph = nullptr;

  bool goesOn() const { return graph != nullptr; }
};

/// What a graph keeps. Any thread.
class OfGraph {
 public:
  virtual ~OfGraph() = default;
  /// The graph, and all that was made of it, will not run any more.
  bool isOver() const { return over_.load(std::memory_order_acquire); }

 private:
  friend void retire(void*);
  std::atomic<bool> over_{false};
};

/// The capture that `stream` is in. Its context is current. Error (invalidUsage): something has spoilt that.
Result<Capture> captureOf(const Gpu& gpu, NativeStream stream);

/// Has `what` live until the graph is over. Then it is destroyed by a thread that calls destroyRetired(): the
/// driver's may not call CUDA. The context is current.
Status keep(const Gpu& gpu, const Capture& capture, std::shared_ptr<OfGraph> what);
/// A context of any GPU is current, if that thread has one.
void destroyRetired();

}  // namespace eccl::runtime::cuda
