#include "topology/probe.h"

#include <sys/utsname.h>

#include "topology/probe_parts.h"

namespace eccl {
namespace {

using probe::Inventory;

constexpr const char* kWithoutHwloc = "this library was built without it (ECCL_HWLOC)";

void readStructure(const ProbeSources& sources, const SystemFiles& files, Inventory* found) {
  Status asked = Status::error(Code::invalidUsage, "%s", kWithoutHwloc);
#ifdef ECCL_HAVE_HWLOC
  if (sources.hwloc) asked = probe::readHwloc(sources.root, found);
#endif
  // Not hwloc's to say, as the kernel's files hold the same: only that it was wanted and did not answer.
  if (sources.hwloc && !asked.ok())
    found->unread.push_back("hwloc: " + asked.message() +
                            "; NUMA nodes and the PCI tree are read from /sys instead");
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

Inventory readXml(const std::string& path) {
  Inventory found;
  Status read = Status::error(Code::invalidUsage, "%s", kWithoutHwloc);
#ifdef ECCL_HAVE_HWLOC
  read = probe::readHwlocXml(path, &found);
#endif
  if (!read.ok()) found.unread.push_back(path + ": " + read.message());
  return found;
}

}  // namespace

bool haveHwloc() {
#ifdef ECCL_HAVE_HWLOC
  return true;
#else
  return false;
#endif
}

Host probeHost(const ProbeSources& sources) {
  const bool running = sources.root.empty() && sources.hwlocXml.empty();
  Host host = probe::assemble(sources.hwlocXml.empty() ? readFiles(sources) : readXml(sources.hwlocXml));
  const std::string nvml = sources.nvml.value_or(running ? "libnvidia-ml.so.1" : "");
  if (!nvml.empty()) probe::addNvml(nvml, &host);
  return host;
}

}  // namespace eccl
