// From which UDP port a queue pair's packets come: switches spread flows over paths by it.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "base/status.h"

namespace eccl::transport::verbs {

/// Whether the driver of an open device can change it: mlx5's (mlx5dv_modify_qp_udp_sport(3)). With others the
/// port is made of the numbers of both queue pairs, or of a flow label that is given before they are connected.
bool changesUdpPort(ibv_context* device);

/// Of such a device, for a queue pair that is ready to send: its packets come from this port from now on. What
/// is on its way stays in order, or is sent again. Error (system): the device refuses. Not logged.
Status changeUdpPort(ibv_qp* queue, uint16_t port);

}  // namespace eccl::transport::verbs
