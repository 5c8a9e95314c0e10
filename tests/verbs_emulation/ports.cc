// What a port says of itself: state, GIDs, PKeys.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "verbs_emulation/calls.h"
#include "verbs_emulation/engine.h"

namespace eccl::verbs_emulation {
namespace {

constexpr uint16_t kPkey = 0xffff;
constexpr uint8_t kWidth4 = 2, kSpeedEdr = 32, kLinkUp = 5, kDisabled = 3;

/// The port, unless the call is to fail; then `*error` is how.
Port* portFor(ibv_context* handle, unsigned number, const char* function, int* error) {
  *error = EINVAL;
  Context* const context = living(world().contexts, handle, "context", function);
  if (context == nullptr || world().fails(function, error)) return nullptr;
  Port* const port = context->device().port(number);
  if (port == nullptr) failWith(EINVAL);
  return port;
}

ibv_gid_entry entryOf(const Port& port, unsigned number, size_t index) {
  ibv_gid_entry entry{};
  entry.gid = port.gids[index].gid;
  entry.gid_index = static_cast<uint32_t>(index);
  entry.port_num = number;
  entry.gid_type = port.gids[index].type;
  entry.ndev_ifindex = port.linkLayer == IBV_LINK_LAYER_ETHERNET ? 1 : 0;
  return entry;
}

}  // namespace

int queryPort(ibv_context* context, uint8_t number, ibv_port_attr* attributes, size_t size) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  const Port* const port = portFor(context, number, "ibv_query_port", &error);
  if (port == nullptr) return error;
  const bool ethernet = port->linkLayer == IBV_LINK_LAYER_ETHERNET;
  ibv_port_attr all{};
  all.state = port->state;
  all.max_mtu = IBV_MTU_4096;
  all.active_mtu = port->mtu;
  all.gid_tbl_len = static_cast<int>(port->gids.size());
  all.port_cap_flags = ethernet ? IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS : IBV_PORT_CM_SUP;
  all.max_msg_sz = 1u << 30;
  all.pkey_tbl_len = 1;
  all.lid = port->lid;
  all.sm_lid = ethernet ? 0 : 1;
  all.max_vl_num = 1;
  all.active_width = kWidth4;
  all.active_speed = kSpeedEdr;
  all.phys_state = port->state == IBV_PORT_ACTIVE ? kLinkUp : kDisabled;
  all.link_layer = port->linkLayer;
  std::memcpy(static_cast<void*>(attributes), &all, std::min(size, sizeof all));
  return 0;
}

}  // namespace eccl::verbs_emulation

using namespace eccl::verbs_emulation;

extern "C" {

/// What programs call that were compiled with old headers: their structure ends before port_cap_flags2.
int ibv_query_port(ibv_context* context, uint8_t number, struct _compat_ibv_port_attr* attributes) {
  return queryPort(context, number, reinterpret_cast<ibv_port_attr*>(attributes),
                   offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, uint8_t number, int index, ibv_gid* gid) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  const Port* const port = portFor(context, number, "ibv_query_gid", &error);
  if (port == nullptr) return -1;
  if (index < 0 || static_cast<size_t>(index) >= port->gids.size()) {
    failWith(EINVAL);
    return -1;
  }
  *gid = port->gids[static_cast<size_t>(index)].gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t number, uint32_t index, ibv_gid_entry* entry,
                      uint32_t flags, size_t size) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  const Port* const port = portFor(context, number, "ibv_query_gid_ex", &error);
  if (port == nullptr) return error;
  if (flags != 0) return failWith(EOPNOTSUPP);
  if (index >= port->gids.size()) return failWith(EINVAL);
  if (port->gids[index].empty()) return failWith(ENODATA);
  const ibv_gid_entry found = entryOf(*port, number, index);
  std::memcpy(static_cast<void*>(entry), &found, std::min(size, sizeof found));
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* handle, ibv_gid_entry* entries, size_t room, uint32_t flags,
                             size_t size) {
  const std::lock_guard lock(world().mutex);
  int error = EINVAL;
  Context* const context = living(world().contexts, handle, "context", "ibv_query_gid_table");
  if (context == nullptr || world().fails("ibv_query_gid_table", &error)) return -error;
  if (flags != 0) return -EOPNOTSUPP;
  size_t count = 0;
  for (unsigned number = 1; Port* port = context->device().port(number); ++number) {
    for (size_t index = 0; index < port->gids.size(); ++index) {
      if (port->gids[index].empty()) continue;
      if (count == room) return -EINVAL;
      const ibv_gid_entry found = entryOf(*port, number, index);
      std::memcpy(reinterpret_cast<char*>(entries) + count++ * size, &found, std::min(size, sizeof found));
    }
  }
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* context, uint8_t number, int index, __be16* pkey) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  if (portFor(context, number, "ibv_query_pkey", &error) == nullptr) return -1;
  if (index != 0) {
    failWith(EINVAL);
    return -1;
  }
  *pkey = htons(kPkey);
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, uint8_t number, __be16 pkey) {
  const std::lock_guard lock(world().mutex);
  int error = 0;
  if (portFor(context, number, "ibv_get_pkey_index", &error) == nullptr) return -1;
  return pkey == htons(kPkey) ? 0 : -1;
}

}  // extern "C"
