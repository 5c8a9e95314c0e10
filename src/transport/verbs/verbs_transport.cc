// The transport `verbs`: InfiniBand and RoCE by libibverbs.
#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "transport/core/transport_module.h"
#include "transport/net/stream.h"
#include "transport/verbs/hca_filter.h"
#include "transport/verbs/verbs_setup.h"

namespace eccl::transport {
namespace verbs {
namespace {

/// The devices of this host, opened, and what is said of each port.
struct Found {
  struct Device {
    ContextHandle context;
    std::vector<Port> ports;  // that are used
  };
  std::vector<Device> devices;
  std::vector<std::string> said;  // a line for each port or device
  bool any() const {
    return std::any_of(devices.begin(), devices.end(), [](const Device& each) { return !each.ports.empty(); });
  }
};

void lookAt(Found::Device& device, const std::string& name, const HcaFilter& filter,
            const VerbsOptions& options, std::vector<std::string>* said) {
  ibv_device_attr attributes{};
  if (const int error = ibv_query_device(device.context.get(), &attributes); error != 0) {
    said->push_back(name + ": not used, it cannot be asked: " + describeError(error));
    return;
  }
  for (uint8_t number = 1; number <= attributes.phys_port_cnt; ++number) {
    const std::string text = format("%s:%u", name.c_str(), number);
    std::string why;
    if (!filter.allows(name, number)) {
      said->push_back(text + ": not used, ECCL_IB_HCA=" + options.hca + " leaves it out");
      continue;
    }
    std::optional<Port> port = readPort(device.context.get(), name, number, &why);
    const std::optional<Gid> gid = port.has_value() ? chooseGid(*port, options) : std::nullopt;
    if (port.has_value() && !gid.has_value() && (port->ethernet || options.gidIndex >= 0)) {
      why = format("it has no GID number %d (ECCL_IB_GID_INDEX)", options.gidIndex);
      port.reset();
    }
    if (!port.has_value()) {
      said->push_back(text + ": not used, " + why);
      continue;
    }
    const std::string chosen = gid.has_value() ? textOf(*gid) : format("LID %u", port->lid);
    const char* const link = port->ethernet ? "RoCE" : "InfiniBand";
    said->push_back(format("%s: used, %s, %s of %zu GIDs, packets of %d bytes", text.c_str(), link,
                           chosen.c_str(), port->gids.size(), 128 << port->mtu));
    device.ports.push_back(std::move(*port));
  }
}

Found findPorts(const VerbsOptions& options) {
  Found found;
  const HcaFilter filter(options.hca);
  for (const std::string& each : filter.senseless())
    found.said.push_back("ECCL_IB_HCA: '" + each + "' names no port; the syntax is [^][=]device[:port],...");
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) {
    found.said.push_back("there are no RDMA devices: " + describeError(errno));
    return found;
  }
  for (int i = 0; i < count; ++i) {
    const std::string name = ibv_get_device_name(list[i]);
    Found::Device device;
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

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& each : lines) text += (text.empty() ? "" : "; ") + each;
  return text;
}

/// Owner of the devices. Its rails are the ports, device by device.
class VerbsTransport final : public Transport {
 public:
  explicit VerbsTransport(const TransportContext& context)
      : context_(context), options_(optionsBy(context.setting)) {}

  /// Once, before the rest. Error (system): there is nothing to use; it says what there is.
  Status open() {
    // So that memory which a device knows stays the parent's when the process forks. Kernels from 5.12 on see
    // to it themselves; there is nothing to do about an error, which also means that somebody was first.
    [[maybe_unused]] const int error = ibv_fork_init();
    if (context_.setting("ENCRYPT") == "1")
      return Status::error(Code::system, "ECCL_ENCRYPT=1 asks for encryption, which RDMA has none of");
    Found found = findPorts(options_);
    if (!found.any()) return Status::error(Code::system, "%s", joined(found.said).c_str());
    for (Found::Device& each : found.devices) {
      if (each.ports.empty()) continue;
      ECCL_ASSIGN(std::unique_ptr<Adapter> adapter,
                  Adapter::open(std::move(each.context), std::move(each.ports), *context_.reactor));
      registrations_.push_back(std::make_unique<Registrations>(adapter->domain()));
      for (const Port& port : adapter->ports())
        rails_.push_back({adapter.get(), registrations_.back().get(), port});
      adapters_.push_back(std::move(adapter));
    }
    ECCL_INFO("%s uses RDMA: %s", context_.describe(context_.rank).c_str(), joined(found.said).c_str());
    return {};
  }
  Result<std::unique_ptr<Offer>> offer(const ConnectionId& id, SetupData* offer) override {
    return offerVerbs(context_, railOf(id), options_, offer);
  }
  Result<std::unique_ptr<Acceptance>> accept(const ConnectionId& id, SetupData& offer,
                                             SetupData* answer) override {
    return acceptVerbs(context_, railOf(id), options_, offer, answer);
  }
  bool polls() const override { return true; }
  void progress() override {
    for (const auto& each : adapters_) each->completions().poll();
  }
  void registerMemory(const MemoryRange& memory) override {
    for (const auto& each : registrations_) each->add(memory);
  }
  void deregisterMemory(const MemoryRange& memory) override {
    for (const auto& each : registrations_) each->remove(memory);
  }
  void closeAfterFork() override {
    for (const auto& each : registrations_) each->closeAfterFork();
    for (const auto& each : adapters_) each->closeAfterFork();
  }

 private:
  const Rail& railOf(const ConnectionId& id) const {
    return rails_[static_cast<size_t>(id.channel) % rails_.size()];
  }

  const TransportContext& context_;
  const VerbsOptions options_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::vector<std::unique_ptr<Registrations>> registrations_;  // by adapter, whose domains they use
  std::vector<Rail> rails_;
};

Result<std::unique_ptr<Transport>> makeVerbs(const TransportContext& context) {
  auto transport = std::make_unique<VerbsTransport>(context);
  ECCL_TRY(transport->open());
  return std::unique_ptr<Transport>(std::move(transport));
}

std::vector<std::string> reportVerbs(const Settings& settings) {
  return findPorts(optionsBy([&](std::string_view name) { return settings.valueOf(name); })).said;
}

const TransportEntry kVerbsTransport = {"verbs", 150, Reach::network, "IB_DISABLE", makeVerbs, reportVerbs};

}  // namespace
}  // namespace verbs
}  // namespace eccl::transport

ECCL_TRANSPORT_MODULE(eccl::transport::verbs::kVerbsTransport)
