#include "transport/verbs/completion_text.h"

#include "base/status.h"

namespace eccl::transport::verbs {
namespace {

/// By the InfiniBand specification, volume 1, 11.6.2.
const char* meaning(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's port does not answer: its process or host is gone, a link between the two ports is "
             "down, "
             "packets are lost (RoCE without flow control), or their GIDs do not reach each other "
             "(ECCL_IB_HCA, "
             "ECCL_IB_GID_INDEX; ECCL_IB_TIMEOUT and ECCL_IB_RETRY_CNT set how long it is tried)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer has no memory for what it was sent: it does not go on, or is another version of ECCL";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's device refuses the memory that was written to: the peer has deregistered or unmapped "
             "it "
             "during a call, or is another version of ECCL";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device does not take such a request: it was longer than the memory for it; is the "
             "peer "
             "another version of ECCL?";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device has failed; its host's kernel log says more";
    case IBV_WC_REM_ABORT_ERR:
      return "the peer's device has given the request up";
    case IBV_WC_LOC_PROT_ERR:
      return "this device refuses the memory of the request: it was unmapped or deregistered during a call";
    case IBV_WC_LOC_LEN_ERR:
      return "what came is longer than the memory for it; is the peer another version of ECCL?";
    case IBV_WC_LOC_ACCESS_ERR:
      return "this device refuses what the peer has asked for; is it another version of ECCL?";
    case IBV_WC_WR_FLUSH_ERR:
      return "this host's queue pair was stopped before the request, and not by this library: its device has "
             "found "
             "an error, or has refused what the peer asked for; the kernel log may say more";
    case IBV_WC_LOC_QP_OP_ERR:
      return "this host's device could not do it: its link is down, its address is gone, or it has failed; the "
             "kernel log says more";
    case IBV_WC_FATAL_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_GENERAL_ERR:
      return "this host's device has failed; the kernel log says more";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "the peer's device has taken too long";
    default:
      return "the kernel logs of both hosts may say more";
  }
}

}  // namespace

std::string completionText(ibv_wc_status status, uint32_t vendorError, const std::string& from,
                           const std::string& to) {
  return format("%s (%s, vendor's number %u), from %s to %s", meaning(status), ibv_wc_status_str(status),
                vendorError, from.c_str(), to.c_str());
}

}  // namespace eccl::transport::verbs
