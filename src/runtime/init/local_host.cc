#include "runtime/init/local_host.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/log.h"
#include "base/once_by_key.h"
#include "topology/formats/host_formats.h"
#include "topology/formats/nccl_xml.h"
#include "topology/model/cluster.h"
#include "topology/model/locations.h"
#include "topology/probe/host_summary.h"
#include "topology/probe/probe.h"
#include "transport/net/secret.h"

namespace eccl::runtime {
namespace {

topology::Host lookAtMachine() {
  topology::Host host = topology::probeHost({.nvml = ""});
  if (!host.all(topology::DeviceKind::accelerator).empty())
    host.unread.emplace_back(
        "accelerators: their driver is not asked while a communicator is made, so links between "
        "them are unknown; eccl_topo dump asks it, for ECCL_TOPO_FILE");
  return host;
}

Result<topology::Host> loadFile(const std::string& path) {
  std::vector<std::string> oddities;
  Result<topology::Host> host = topology::loadHost(path, &oddities);
  if (!host.ok())
    return Status::error(host.status().code(), "ECCL_TOPO_FILE: %s", host.status().message().c_str());
  if (host->all(topology::DeviceKind::cpu).empty())
    return Status::error(Code::invalidArgument, "ECCL_TOPO_FILE: %s: describes no CPU, where ranks could run",
                         path.c_str());
  for (const std::string& sentence : oddities) ECCL_WARN("ECCL_TOPO_FILE: %s", sentence.c_str());
  return host;
}

Result<std::shared_ptr<const LocalHost>> look(const std::string& path) {
  auto found = std::make_shared<LocalHost>();
  if (path.empty()) {
    found->host = lookAtMachine();
  } else {
    ECCL_ASSIGN(found->host, loadFile(path));
  }
  found->fingerprint = transport::Secret().mac(
      topology::toNcclXml(topology::withoutIdentity(found->host)));  // no key: it hides nothing
  return std::shared_ptr<const LocalHost>(std::move(found));
}

}  // namespace

Result<std::shared_ptr<const LocalHost>> localHost(const Settings& settings) {
  const std::string& path = settings.topoFile;  // empty: the machine's
  return OnceByKey<std::string, std::shared_ptr<const LocalHost>>::get().at(path, [&] { return look(path); });
}

uint32_t megabitsOf(const topology::Host& host, const std::string& interface) {
  const int port = topology::portOfInterface(host, interface);
  if (port == topology::Device::kNone)
    return static_cast<uint32_t>(std::min<uint64_t>(topology::interfaceMegabits(interface), UINT32_MAX));
  const double gigabytes = topology::networkPorts(host, std::span(&port, 1), "").front().gigabytes;
  return static_cast<uint32_t>(std::min(std::lround(8e3 * gigabytes), long{UINT32_MAX}));
}

void dumpHost(const topology::Host& host, const Settings& settings, int rank) {
  if (settings.topoDumpFile.empty() || settings.topoDumpRank != rank) return;
  if (Status status = topology::saveNcclXml(host, settings.topoDumpFile); !status.ok()) {
    ECCL_WARN("ECCL_TOPO_DUMP_FILE: %s; rank %d goes on without", status.message().c_str(), rank);
  } else {
    ECCL_INFO("rank %d wrote its host's topology to %s", rank, settings.topoDumpFile.c_str());
  }
}

}  // namespace eccl::runtime
