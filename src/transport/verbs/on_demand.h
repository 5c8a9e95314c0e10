// Memory whose pages a device looks up when it needs them (on-demand paging, ODP), in step with the kernel. It
// is not locked, and may be unmapped, moved and mapped anew. A page that the device does not know costs it an
// interrupt.
#pragma once

#include "transport/core/transport.h"
#include "transport/verbs/adapter.h"

namespace eccl::transport::verbs {

/// Whether the device does so in all that is done with the user's memory: SEND and RDMA WRITE of reliable
/// connections, at both ends.
bool looksUpPages(ibv_context* context);

/// Registers memory so, and has the device look all of its pages up at once. `access`: IBV_ACCESS_REMOTE_WRITE
/// is only for memory that this process may write to. Error (system): the device cannot, as it could not later;
/// such are pages of other devices, and those that the program itself provides by userfaultfd(2). Not logged.
Result<MemoryHandle> registerOnDemand(ibv_pd* domain, const MemoryRange& memory, int access);

}  // namespace eccl::transport::verbs
