// The functions that libibverbs's headers call through pointers in the context.
#pragma once

#include <infiniband/verbs.h>

namespace eccl::verbs_emulation {

inline constexpr int kMaxReads = 16;  // at a time, of a queue pair

int queryPort(ibv_context* context, uint8_t number, ibv_port_attr* attributes, size_t size);
int queryDeviceMore(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attributes, size_t size);
int advise(ibv_pd* domain, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* parts, uint32_t count);
int pollCompletions(ibv_cq* queue, int room, ibv_wc* completions);
int requestNotification(ibv_cq* queue, int solicitedOnly);
int postSend(ibv_qp* pair, ibv_send_wr* requests, ibv_send_wr** bad);
int postReceive(ibv_qp* pair, ibv_recv_wr* requests, ibv_recv_wr** bad);
int postSharedReceive(ibv_srq* queue, ibv_recv_wr* requests, ibv_recv_wr** bad);

}  // namespace eccl::verbs_emulation
