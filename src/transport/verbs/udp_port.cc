#include "transport/verbs/udp_port.h"

#include <dlfcn.h>

namespace eccl::transport::verbs {
namespace {

/// Of libmlx5, which libibverbs has loaded where there is such a device.
struct Mlx5 {
  bool (*isSupported)(ibv_device* device) = nullptr;
  int (*modifyUdpPort)(ibv_qp* queue, uint16_t port) = nullptr;

  Mlx5() {
    void* const library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == nullptr) return;
    find(library, "mlx5dv_is_supported", &isSupported);
    find(library, "mlx5dv_modify_qp_udp_sport", &modifyUdpPort);  // rdma-core 33
  }
  template <class Function>
  static void find(void* library, const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library, name));
  }
  /// Once a device is open.
  static const Mlx5& library() {
    static const Mlx5 loaded;
    return loaded;
  }
};

}  // namespace

bool changesUdpPort(ibv_context* device) {
  const Mlx5& mlx5 = Mlx5::library();
  return mlx5.isSupported != nullptr && mlx5.modifyUdpPort != nullptr && mlx5.isSupported(device->device);
}

Status changeUdpPort(ibv_qp* queue, uint16_t port) {
  const int error = Mlx5::library().modifyUdpPort(queue, port);
  if (error == 0) return {};
  return Status::fromErrno(error, "%s does not let the UDP port of a queue pair be chosen",
                           queue->context->device->name);
}

}  // namespace eccl::transport::verbs
