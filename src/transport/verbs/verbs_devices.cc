#include "transport/verbs/verbs_devices.h"

#include <algorithm>
#include <cerrno>

#include "base/status.h"
#include "transport/net/stream.h"
#include "transport/verbs/hca_filter.h"

namespace eccl::transport::verbs {
namespace {

void lookAt(FoundDevices::Device& device, const std::string& name, const HcaFilter& filter,
            const VerbsOptions& options, std::vector<std::string>* said) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(device.context.get(), &attributes); error != 0) {
    said->push_back(name + ": not used, it cannot be asked: " + describeError(error));
    return;
  }
  for (int port = 1; port <= attributes.phys_port_cnt; ++port) {
    const auto number = static_cast<uint8_t>(port);
    const std::string text = format("%s:%d", name.c_str(), port);
    std::string why;
    if (!filter.allows(name, number)) {
      said->push_back(text + ": not used, ECCL_IB_HCA=" + options.hca + " leaves it out");
      continue;
    }
    std::optional<Port> found = readPort(device.context.get(), name, number, &why);
    const std::optional<Gid> gid = found.has_value() ? chooseGid(*found, options) : std::nullopt;
    if (found.has_value() && !gid.has_value() && (found->ethernet || options.gidIndex >= 0)) {
      why = format("it has no GID number %d (ECCL_IB_GID_INDEX)", options.gidIndex);
      found.reset();
    }
    if (!found.has_value()) {
      said->push_back(text + ": not used, " + why);
      continue;
    }
    const std::string chosen = gid.has_value() ? textOf(*gid) : format("LID %u", found->lid);
    const char* const link = found->ethernet ? "RoCE" : "InfiniBand";
    said->push_back(format("%s: used, %s, %s of %zu GIDs, packets of %d bytes", text.c_str(), link,
                           chosen.c_str(), found->gids.size(), 128 << found->mtu));
    device.ports.push_back(std::move(*found));
  }
}

}  // namespace

bool FoundDevices::any() const {
  return std::any_of(devices.begin(), devices.end(), [](const Device& each) { return !each.ports.empty(); });
}

FoundDevices findDevices(const VerbsOptions& options) {
  FoundDevices found;
  const HcaFilter filter(options.hca);
  for (const std::string& each : filter.senseless())
    found.said.push_back("ECCL_IB_HCA: '" + each + "' names no port; the syntax is [^][=]device[:port],...");
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) {
    found.said.push_back(
        "there are no RDMA devices: " +
        (errno == ENOSYS ? "the kernel has no driver for one (modprobe ib_uverbs)" : describeError(errno)));
    return found;
  }
  for (int i = 0; i < count; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    if (list[i]->transport_type != IBV_TRANSPORT_IB) {
      found.said.push_back(name + ": not used, it has no reliable queue pairs of InfiniBand or RoCE");
      continue;
    }
    FoundDevices::Device device;
    device.context.reset(ibv_open_device(list[i]));
    if (device.context == nullptr) {
      found.said.push_back(name + ": not used, it cannot be opened: " + describeError(errno) +
                           " (it takes the right to read and write /dev/infiniband/uverbs*)");
      continue;
    }
    lookAt(device, name, filter, options, &found.said);
    found.devices.push_back(std::move(device));
  }
  ibv_free_device_list(list);
  if (count == 0)
    found.said.push_back("there are no RDMA devices; the kernel's drivers may not be loaded (rdma link show)");
  return found;
}

}  // namespace eccl::transport::verbs
