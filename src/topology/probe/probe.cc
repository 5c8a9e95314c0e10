#include "topology/probe/probe.h"

#include <sys/utsname.h>

#include "topology/probe/probe_parts.h"

namespace eccl::topology {
namespace {

using probe::Inventory;

void readStructure(const ProbeSources& sources, const SystemFiles& files, Inventory* found) {
  const Status asked = sources.structure ? sources.structure(sources.root, found) : Status();
  // Only that it was wanted and did not answer: the kernel's files hold the same.
  if (!asked.ok())
    found->unread.push_back(asked.message() + "; NUMA nodes and the PCI tree are read from /sys instead");
  // Of a machine that shows no nodes hwloc makes one up.
  if (!files.exists("/sys/devices/system/node")) found->nodes.clear();
  if (found->nodes.empty()) probe::readNumaNodes(files, found);
  if (found->functions.empty()) probe::readPciTree(files, found);
}

Inventory readFiles(const ProbeSources& sources) {
  Inventory found;
  const SystemFiles files(sources.root);
  readStructure(sources, files, &found);
  probe::readPciFacts(files, &found);
  probe::readCpuModel(files, &found);
  probe::readPorts(files, &found);
  if (found.cpu.arch.empty() && sources.root.empty()) {
    utsname system{};
    if (uname(&system) == 0) found.cpu.arch = system.machine;
  }
  return found;
}

}  // namespace

Host probeHost(const ProbeSources& sources) {
  Host host = probe::assemble(readFiles(sources));
  const std::string nvml = sources.nvml.value_or(sources.root.empty() ? "libnvidia-ml.so.1" : "");
  if (!nvml.empty()) probe::addNvml(nvml, &host);
  makePrintable(host);
  return host;
}

}  // namespace eccl::topology
