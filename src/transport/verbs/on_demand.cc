#include "transport/verbs/on_demand.h"

#include <algorithm>

namespace eccl::transport::verbs {

bool looksUpPages(ibv_context* context) {
  ibv_device_attr_ex attributes{};
  if (ibv_query_device_ex(context, nullptr, &attributes) != 0) return false;
  constexpr uint32_t kNeeded = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
  return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
         (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
}

Result<MemoryHandle> registerOnDemand(ibv_pd* domain, const MemoryRange& memory, int access) {
  ECCL_ASSIGN(MemoryHandle handle,
              registerWith(domain, memory.base, memory.bytes, access | IBV_ACCESS_ON_DEMAND));
  const bool written = (access & IBV_ACCESS_REMOTE_WRITE) != 0;
  constexpr uint64_t kMost = uint64_t{1} << 30;  // a length has 32 bits
  for (uint64_t at = 0; at < memory.bytes; at += kMost) {
    ibv_sge part{reinterpret_cast<uintptr_t>(memory.base) + at,
                 static_cast<uint32_t>(std::min(kMost, memory.bytes - at)), handle->lkey};
    const int error =
        ibv_advise_mr(domain, written ? IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE : IBV_ADVISE_MR_ADVICE_PREFETCH,
                      IBV_ADVISE_MR_FLAG_FLUSH, &part, 1);
    if (error != 0)
      return Status::fromErrno(error, "%s cannot look up the pages of %zu bytes of memory",
                               ibv_get_device_name(domain->context->device), static_cast<size_t>(memory.bytes));
  }
  return handle;
}

}  // namespace eccl::transport::verbs
