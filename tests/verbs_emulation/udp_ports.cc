// What libmlx5 exports for queue pairs of its devices, where a device of the emulation is made one. A library
// of that name (mlx5.cc) leads here.
#include <cerrno>

#include "verbs_emulation/world.h"

using namespace eccl::verbs_emulation;

extern "C" {

__attribute__((visibility("default"))) bool mlx5dv_is_supported(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  return static_cast<DeviceHandle*>(device)->model->changesUdpPorts;
}

__attribute__((visibility("default"))) int mlx5dv_modify_qp_udp_sport(ibv_qp* handle, uint16_t port) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  int error = EINVAL;
  QueuePair* const pair = living(w.queuePairs, handle, "queue pair", "mlx5dv_modify_qp_udp_sport");
  if (pair == nullptr || w.fails("mlx5dv_modify_qp_udp_sport", &error)) return error;
  if (!pair->device().changesUdpPorts || pair->now.qp_state != IBV_QPS_RTS) return failWith(EINVAL);
  pair->udpPort = port;
  return 0;
}

}  // extern "C"
