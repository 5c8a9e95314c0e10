// Device lists, contexts, and what a device says of itself.
#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"

using namespace eccl::verbs_emulation;

namespace {

constexpr uint64_t kFirstGuid = 0x0002c90300000000;

std::shared_ptr<DeviceHandle> handleOf(const std::shared_ptr<Device>& device) {
  auto handle = std::make_shared<DeviceHandle>();
  handle->node_type = IBV_NODE_CA;
  handle->transport_type = IBV_TRANSPORT_IB;
  std::snprintf(handle->name, sizeof handle->name, "%s", device->name.c_str());
  std::snprintf(handle->dev_name, sizeof handle->dev_name, "uverbs%d", device->number);
  std::snprintf(handle->dev_path, sizeof handle->dev_path, "/nonexistent/uverbs%d", device->number);
  std::snprintf(handle->ibdev_path, sizeof handle->ibdev_path, "/nonexistent/%s", handle->name);
  handle->model = device;
  return handle;
}

/// The living handle, from the lists and the contexts; null, and a violation, if there is none.
std::shared_ptr<DeviceHandle> findDevice(const ibv_device* device, const char* function) {
  for (const auto& [list, handles] : world().lists)
    for (const auto& each : handles)
      if (each.get() == device) return each;
  for (const auto& [handle, context] : world().contexts)
    if (context->handle.get() == device) return context->handle;
  violation("%s: %p is no device of a list or of an open context", function, static_cast<const void*>(device));
  return nullptr;
}

}  // namespace

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  if (count != nullptr) *count = 0;
  if (world().fails("ibv_get_device_list", &error)) return nullptr;
  std::vector<std::shared_ptr<DeviceHandle>> handles;
  for (const auto& device : world().devices)
    if (device->listed) handles.push_back(handleOf(device));
  auto** const list = new ibv_device*[handles.size() + 1]();
  for (size_t i = 0; i < handles.size(); ++i) list[i] = handles[i].get();
  if (count != nullptr) *count = static_cast<int>(handles.size());
  world().lists[list] = std::move(handles);
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  const std::lock_guard lock(world().mutex);
  if (world().lists.erase(list) == 0) {
    violation("ibv_free_device_list: %p is no living list", static_cast<void*>(list));
    return;
  }
  delete[] list;
}

const char* ibv_get_device_name(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  return findDevice(device, "ibv_get_device_name") == nullptr ? "" : device->name;
}

__be64 ibv_get_device_guid(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  const auto found = findDevice(device, "ibv_get_device_guid");
  return found == nullptr ? 0 : htobe64(kFirstGuid + static_cast<uint64_t>(found->model->number));
}

int ibv_get_device_index(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  const auto found = findDevice(device, "ibv_get_device_index");
  return found == nullptr ? -1 : found->model->number;
}

ibv_context* ibv_open_device(ibv_device* device) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  auto handle = findDevice(device, "ibv_open_device");
  if (handle == nullptr || world().fails("ibv_open_device", &error)) return nullptr;
  if (handle->model->fatal) {
    failWith(EIO);
    return nullptr;
  }
  auto context = std::make_unique<Context>();
  context->handle = std::move(handle);
  context->verbs.query_port = queryPort;
  context->verbs.query_device_ex = queryDeviceMore;
  context->verbs.advise_mr = advise;
  context->verbs.sz = sizeof context->verbs;
  ibv_context& base = context->verbs.context;
  base.device = device;
  base.ops.poll_cq = pollCompletions;
  base.ops.req_notify_cq = requestNotification;
  base.ops.post_send = postSend;
  base.ops.post_recv = postReceive;
  base.ops.post_srq_recv = postSharedReceive;
  base.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  base.async_fd = context->events.descriptor();
  base.num_comp_vectors = 4;
  base.abi_compat = __VERBS_ABI_IS_EXTENDED;
  const void* const key = &base;
  world().contexts[key] = std::move(context);
  return &base;
}

int ibv_close_device(ibv_context* handle) {
  const std::lock_guard lock(world().mutex);
  Context* const context = living(world().contexts, handle, "context", "ibv_close_device");
  if (context == nullptr) return EINVAL;
  if (context->children > 0) {
    violation("ibv_close_device: %d objects of the context live", context->children);
    return failWith(EBUSY);
  }
  close(handle->cmd_fd);
  world().contexts.erase(handle);
  return 0;
}

int ibv_query_device(ibv_context* handle, ibv_device_attr* attributes) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Context* const context = living(world().contexts, handle, "context", "ibv_query_device");
  if (context == nullptr || world().fails("ibv_query_device", &error)) return error;
  const Device& device = context->device();
  *attributes = {};
  std::snprintf(attributes->fw_ver, sizeof attributes->fw_ver, "emulated");
  attributes->node_guid = htobe64(kFirstGuid + static_cast<uint64_t>(device.number));
  attributes->sys_image_guid = attributes->node_guid;
  attributes->max_mr_size = UINT64_MAX;
  attributes->page_size_cap = 4096;
  attributes->max_qp = device.limits.maxQp;
  attributes->max_qp_wr = device.limits.maxQpWr;
  attributes->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT;
  attributes->max_sge = attributes->max_sge_rd = attributes->max_srq_sge = device.limits.maxSge;
  attributes->max_cq = attributes->max_mr = attributes->max_pd = attributes->max_srq = 1 << 16;
  attributes->max_cqe = device.limits.maxCqe;
  attributes->max_qp_rd_atom = attributes->max_qp_init_rd_atom = kMaxReads;
  attributes->max_res_rd_atom = kMaxReads * device.limits.maxQp;
  attributes->max_srq_wr = device.limits.maxQpWr;
  attributes->max_pkeys = 1;
  attributes->local_ca_ack_delay = 15;
  attributes->phys_port_cnt = static_cast<uint8_t>(device.ports.size());
  return 0;
}

}  // extern "C"

namespace eccl::verbs_emulation {

int queryDeviceMore(ibv_context* handle, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    size_t size) {
  if (input != nullptr && input->comp_mask != 0) return failWith(EINVAL);
  ibv_device_attr_ex all{};
  if (const int error = ibv_query_device(handle, &all.orig_attr); error != 0) return error;
  const std::lock_guard lock(world().mutex);
  Context* const context = living(world().contexts, handle, "context", "ibv_query_device_ex");
  if (context == nullptr) return EINVAL;
  all.odp_caps.per_transport_caps.rc_odp_caps = context->device().onDemand;
  if (context->device().onDemand != 0) all.odp_caps.general_caps = IBV_ODP_SUPPORT;
  std::memcpy(static_cast<void*>(attributes), &all, std::min(size, sizeof all));
  return 0;
}

}  // namespace eccl::verbs_emulation
