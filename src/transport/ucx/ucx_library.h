// UCX as it is installed here. Any thread.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/ucx/ucx_words.h"

namespace eccl::transport {

/// What a call of UCX has said, as an error of code system: "ucx: <what>: <its words>".
Status ucxStatus(ucs_status_t status, const char* what);
/// The version that runs.
UcxVersion ucxVersion();
/// A context, with UCX's settings from its own variables. Ended by closeUcx(). Error (system): it cannot be
/// had, for example for want of a transport that UCX_TLS allows, or because this process was forked by one that
/// used UCX meanwhile: UCX's thread is not there then. Not logged.
Result<ucp_context_h> openUcx();
void closeUcx(ucp_context_h context);
/// Instead of closing: a worker that stays, and what it may use, as long as the process. Nothing of it is
/// called any more but that its active messages are heard by nobody.
void leaveUcx(ucp_worker_h worker, std::vector<std::shared_ptr<void>> memory);
/// What it is and what it has found, for people, a line each.
std::vector<std::string> describeUcx();

}  // namespace eccl::transport
