// What tests ask for of devices, ports and GIDs: verbs_emulation.h.
#include <cerrno>

#include "verbs_emulation/engine.h"

using namespace eccl::verbs_emulation;

namespace {

Device* deviceOf(int number) {
  auto& devices = world().devices;
  return number < 0 || static_cast<size_t>(number) >= devices.size()
             ? nullptr
             : devices[static_cast<size_t>(number)].get();
}

/// Calls `change`, under the lock, with the device and the port.
template <class Change>
int withPort(int device, int port, const Change& change) {
  const std::lock_guard lock(world().mutex);
  Device* const found = deviceOf(device);
  if (found == nullptr) return ENODEV;
  Port* const of = port < 1 ? nullptr : found->port(static_cast<unsigned>(port));
  if (of == nullptr) return ENXIO;
  change(*found, *of);
  progress(nullptr);
  return 0;
}

template <class Change>
int withDevice(int device, const Change& change) {
  const std::lock_guard lock(world().mutex);
  Device* const found = deviceOf(device);
  if (found == nullptr) return ENODEV;
  change(*found);
  progress(nullptr);
  return 0;
}

int setGid(int device, int port, int index, const ibv_gid* gid, uint32_t type, bool tell) {
  if (index < 0 || index > UINT8_MAX) return EINVAL;
  return withPort(device, port, [&](Device& of, Port& at) {
    const auto place = static_cast<size_t>(index);
    if (place >= at.gids.size()) at.gids.resize(place + 1);
    at.gids[place] = {gid == nullptr ? ibv_gid{} : *gid, type};
    if (tell) raiseOf(of, IBV_EVENT_GID_CHANGE, port);
  });
}

}  // namespace

extern "C" {

int verbsEmulationAddDevice(const char* name) {
  const std::lock_guard lock(world().mutex);
  auto device = std::make_shared<Device>();
  device->number = static_cast<int>(world().devices.size());
  device->name = name;
  world().devices.push_back(device);
  return device->number;
}

void verbsEmulationRemoveAllDevices() {
  const std::lock_guard lock(world().mutex);
  for (const auto& device : world().devices) device->listed = false;
}

int verbsEmulationRemoveDevice(int device) {
  return withDevice(device, [](Device& of) { of.listed = false; });
}

int verbsEmulationOfferOnDemand(int device, uint32_t capabilities) {
  return withDevice(device, [capabilities](Device& of) { of.onDemand = capabilities; });
}

int verbsEmulationChangesUdpPorts(int device, int on) {
  return withDevice(device, [on](Device& of) { of.changesUdpPorts = on != 0; });
}

int verbsEmulationAddPort(int device, uint8_t linkLayer, uint16_t lid) {
  int number = 0;
  const int error = withDevice(device, [&](Device& of) {
    Port port;
    port.linkLayer = linkLayer;
    port.lid = lid;
    of.ports.push_back(port);
    number = static_cast<int>(of.ports.size());
  });
  return error == 0 ? number : -error;
}

int verbsEmulationSetGid(int device, int port, int index, const ibv_gid* gid, uint32_t type) {
  return setGid(device, port, index, gid, type, false);
}

int verbsEmulationChangeGid(int device, int port, int index, const ibv_gid* gid, uint32_t type) {
  return setGid(device, port, index, gid, type, true);
}

int verbsEmulationSetMtu(int device, int port, ibv_mtu mtu) {
  return withPort(device, port, [mtu](Device&, Port& of) { of.mtu = mtu; });
}

int verbsEmulationSetPortState(int device, int port, ibv_port_state state) {
  return withPort(device, port, [=](Device& of, Port& at) {
    const bool was = at.state == IBV_PORT_ACTIVE, is = state == IBV_PORT_ACTIVE;
    at.state = state;
    if (was != is) raiseOf(of, is ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, port);
  });
}

int verbsEmulationFatal(int device) {
  return withDevice(device, [](Device& of) {
    of.fatal = true;
    raiseOf(of, IBV_EVENT_DEVICE_FATAL, 0);
    for (const auto& [number, pair] : world().pairsByNumber)
      if (&pair->device() == &of) toError(*pair);
  });
}

int verbsEmulationRaise(int device, ibv_event_type type, int port) {
  return withDevice(device, [=](Device& of) { raiseOf(of, type, port); });
}

int verbsEmulationSetLimits(int device, int maxQp, int maxQpWr, int maxSge, int maxCqe, int maxInline) {
  return withDevice(device, [=](Device& of) {
    const auto take = [](int& limit, int value) {
      if (value >= 0) limit = value;
    };
    take(of.limits.maxQp, maxQp);
    take(of.limits.maxQpWr, maxQpWr);
    take(of.limits.maxSge, maxSge);
    take(of.limits.maxCqe, maxCqe);
    take(of.limits.maxInline, maxInline);
  });
}

}  // extern "C"
