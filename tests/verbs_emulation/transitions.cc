#include "verbs_emulation/transitions.h"

#include <cerrno>

#include "verbs_emulation/calls.h"

namespace eccl::verbs_emulation {
namespace {

constexpr int kMaxTime = 31, kMaxRetries = 7;  // fields of 5 and of 3 bits
constexpr uint32_t kMask24 = 0xffffff;

struct Transition {
  ibv_qp_state from, to;
  int required, optional;
};

constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    {IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    {IBV_QPS_INIT, IBV_QPS_RTR,
     IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER,
     IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    {IBV_QPS_RTR, IBV_QPS_RTS,
     IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
     IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
};

bool maskFits(ibv_qp_state from, ibv_qp_state to, int mask) {
  const int said = mask & ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return said == 0;
  for (const Transition& each : kTransitions) {
    if (each.from == from && each.to == to)
      return (said & each.required) == each.required && (said & ~(each.required | each.optional)) == 0;
  }
  return false;
}

/// Whether the address leads out of the port: what it leads to is found out when something is sent.
bool addressFits(QueuePair& pair, const ibv_ah_attr& address) {
  const Port* const port = pair.device().port(address.port_num);
  if (port == nullptr || address.port_num != pair.now.port_num || address.sl > 15) return false;
  if (port->linkLayer == IBV_LINK_LAYER_INFINIBAND && address.is_global == 0) return address.dlid != 0;
  if (address.is_global == 0 || address.grh.sgid_index >= port->gids.size()) return false;
  const ibv_gid& to = address.grh.dgid;
  const bool nowhere = to.global.subnet_prefix == 0 && to.global.interface_id == 0;
  return !nowhere && !port->gids[address.grh.sgid_index].empty();
}

bool valuesFit(QueuePair& pair, const ibv_qp_attr& wanted, int mask) {
  const auto said = [mask](int bit) { return (mask & bit) != 0; };
  constexpr unsigned kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (said(IBV_QP_CUR_STATE) && wanted.cur_qp_state != pair.now.qp_state) return false;
  if (said(IBV_QP_PORT) && pair.device().port(wanted.port_num) == nullptr) return false;
  if (said(IBV_QP_PKEY_INDEX) && wanted.pkey_index != 0) return false;
  if (said(IBV_QP_ACCESS_FLAGS) && (wanted.qp_access_flags & ~kAccess) != 0) return false;
  if (said(IBV_QP_AV) && !addressFits(pair, wanted.ah_attr)) return false;
  if (said(IBV_QP_PATH_MTU)) {
    const Port* const port = pair.device().port(pair.now.port_num);
    if (wanted.path_mtu < IBV_MTU_256 || port == nullptr || wanted.path_mtu > port->mtu) return false;
  }
  if (said(IBV_QP_DEST_QPN) && wanted.dest_qp_num > kMask24) return false;
  if (said(IBV_QP_MAX_DEST_RD_ATOMIC) && wanted.max_dest_rd_atomic > kMaxReads) return false;
  if (said(IBV_QP_MAX_QP_RD_ATOMIC) && wanted.max_rd_atomic > kMaxReads) return false;
  if (said(IBV_QP_MIN_RNR_TIMER) && wanted.min_rnr_timer > kMaxTime) return false;
  if (said(IBV_QP_TIMEOUT) && wanted.timeout > kMaxTime) return false;
  if (said(IBV_QP_RETRY_CNT) && wanted.retry_cnt > kMaxRetries) return false;
  return !said(IBV_QP_RNR_RETRY) || wanted.rnr_retry <= kMaxRetries;
}

}  // namespace

int checkTransition(QueuePair& pair, const ibv_qp_attr& wanted, int mask) {
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : pair.now.qp_state;
  if (!maskFits(pair.now.qp_state, to, mask)) return EINVAL;
  return valuesFit(pair, wanted, mask) ? 0 : EINVAL;
}

void apply(QueuePair& pair, const ibv_qp_attr& wanted, int mask) {
  const auto take = [&](int bit, auto& now, const auto& value) {
    if ((mask & bit) != 0) now = value;
  };
  ibv_qp_attr& now = pair.now;
  take(IBV_QP_ACCESS_FLAGS, now.qp_access_flags, wanted.qp_access_flags);
  take(IBV_QP_PKEY_INDEX, now.pkey_index, wanted.pkey_index);
  take(IBV_QP_PORT, now.port_num, wanted.port_num);
  take(IBV_QP_AV, now.ah_attr, wanted.ah_attr);
  take(IBV_QP_PATH_MTU, now.path_mtu, wanted.path_mtu);
  take(IBV_QP_TIMEOUT, now.timeout, wanted.timeout);
  take(IBV_QP_RETRY_CNT, now.retry_cnt, wanted.retry_cnt);
  take(IBV_QP_RNR_RETRY, now.rnr_retry, wanted.rnr_retry);
  take(IBV_QP_MAX_QP_RD_ATOMIC, now.max_rd_atomic, wanted.max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, now.max_dest_rd_atomic, wanted.max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, now.min_rnr_timer, wanted.min_rnr_timer);
  take(IBV_QP_DEST_QPN, now.dest_qp_num, wanted.dest_qp_num);
  take(IBV_QP_RQ_PSN, pair.nextReceive, wanted.rq_psn & kMask24);
  take(IBV_QP_SQ_PSN, pair.nextSend, wanted.sq_psn & kMask24);
}

}  // namespace eccl::verbs_emulation
