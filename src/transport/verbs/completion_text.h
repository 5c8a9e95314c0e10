// What a failed work request means, in a sentence.
#pragma once

#include <infiniband/verbs.h>

#include <string>

namespace eccl::transport::verbs {

/// What happened, and what to look at, likely causes first. `from`: "rxea:1, GID 1, RoCE v2, 10.0.1.1"; `to`:
/// the peer's likewise.
std::string completionText(ibv_wc_status status, uint32_t vendorError, const std::string& from,
                           const std::string& to);

}  // namespace eccl::transport::verbs
