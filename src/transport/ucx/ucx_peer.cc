#include "transport/ucx/ucx_peer.h"

#include "base/log.h"
#include "transport/net/wait.h"
#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_worker.h"

namespace eccl::transport {
namespace {

/// A peer that is there answers, and one that has gone is seen to be. Over TCP UCX 1.13 waits for the answer.
constexpr Duration kFarewell = std::chrono::seconds(2);
/// Long against what a network card takes to give an operation up.
constexpr Duration kRevocation = std::chrono::seconds(5);

}  // namespace

// UCX learns no length: whatever an address says of itself, what is read lies within.
Status UcxPeer::meet() {
  if (std::exchange(begun_, true)) return {};
  std::string padded = address_;
  padded.resize(SetupData::kMaxBytes);
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(padded.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {onError, link_.get()};
  ECCL_TRY(ucxStatus(ucp_ep_create(worker_.handle(), &params, &endpoint_), "reaching the peer"));
  // A flush of nothing is complete when there is a way for what comes later.
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.send = onMet;
  param.user_data = link_.get();
  const ucs_status_ptr_t request = ucp_ep_flush_nbx(endpoint_, &param);
  if (UCS_PTR_IS_ERR(request)) return ucxStatus(UCS_PTR_STATUS(request), "reaching the peer");
  meeting_ = request;
  return {};
}

// In a callback of UCX.
void UcxPeer::onMet(void* request, ucs_status_t status, void* link) {
  ucp_request_free(request);
  UcxPeer* const self = static_cast<Link*>(link)->peer;
  if (self == nullptr) return;
  self->meeting_ = nullptr;
  if (status != UCS_OK) return onError(link, nullptr, status);
  for (UcxEnd* end : self->ends_) end->peerMet();
}

UcxPeer::~UcxPeer() {
  link_->peer = nullptr;
  if (begun_) worker_.keep(link_);
  if (worker_.forked() || endpoint_ == nullptr) return;
  if (underWay_ > 0) revoke();
  if (endpoint_ != nullptr && !worker_.abandoned()) close(failed_ ? UCP_EP_CLOSE_FLAG_FORCE : 0, kFarewell);
}

// In a callback of UCX. The endpoint stays until it is closed.
void UcxPeer::onError(void* link, ucp_ep_h, ucs_status_t status) {
  UcxPeer* const self = static_cast<Link*>(link)->peer;
  if (self == nullptr) return;
  self->failed_ = true;
  for (UcxEnd* end : self->ends_) end->peerFailed(ucs_status_string(status));
}

void UcxPeer::close(unsigned flags, Duration limit) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = flags;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  if (!worker_.goOn(limit, [request] { return ucp_request_check_status(request) != UCS_INPROGRESS; }))
    worker_.abandon();
  ucp_request_free(request);
}

bool UcxPeer::revoke() {
  if (worker_.forked() || underWay_ == 0) return true;
  worker_.abandon();
  if (endpoint_ != nullptr) close(UCP_EP_CLOSE_FLAG_FORCE, kRevocation);
  if (worker_.goOn(kRevocation, [this] { return underWay_ == 0; })) return true;
  ECCL_WARN("%s: UCX has not given up %d messages with %s within %g s, and may still use their memory",
            worker_.context().describe(worker_.context().rank).c_str(), underWay_,
            worker_.context().describe(rank_).c_str(), seconds(kRevocation));
  return false;
}

}  // namespace eccl::transport
