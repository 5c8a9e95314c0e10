// Stands in for probe_hwloc.cc in a build without hwloc.
#include "topology/probe/probe_hwloc.h"

namespace eccl::topology {
namespace {

constexpr const char* kAbsent = "hwloc: this program was built without it (ECCL_HWLOC)";

}  // namespace

bool haveHwloc() {
  return false;
}

Status hwlocStructure(const std::string&, probe::Inventory*) {
  return Status::error(Code::invalidUsage, "%s", kAbsent);
}

Host probeHwlocXml(const std::string& path) {
  Host host;
  host.unread.push_back(path + ": " + kAbsent);
  return host;
}

}  // namespace eccl::topology
