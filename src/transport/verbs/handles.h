// Owners of what libibverbs makes.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace eccl::transport::verbs {

/// Destroys what it is given. What libibverbs says is of no use: the object is gone, or the process ends.
template <auto kDestroy>
struct Destroyer {
  template <class T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using ContextHandle = std::unique_ptr<ibv_context, Destroyer<ibv_close_device>>;
using DomainHandle = std::unique_ptr<ibv_pd, Destroyer<ibv_dealloc_pd>>;
using MemoryHandle = std::unique_ptr<ibv_mr, Destroyer<ibv_dereg_mr>>;
using ChannelHandle = std::unique_ptr<ibv_comp_channel, Destroyer<ibv_destroy_comp_channel>>;
using CompletionHandle = std::unique_ptr<ibv_cq, Destroyer<ibv_destroy_cq>>;
using QueueHandle = std::unique_ptr<ibv_qp, Destroyer<ibv_destroy_qp>>;

}  // namespace eccl::transport::verbs
