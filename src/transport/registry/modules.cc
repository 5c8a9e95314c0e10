#include "transport/registry/modules.h"

namespace eccl::transport {
namespace {

Result<const TransportEntry*> load(const std::string& path) {
  ECCL_ASSIGN(const ModuleHeader* module, openModule(kTransportModules, path));
  return static_cast<const TransportModule*>(module)->entry;
}

}  // namespace

Result<const TransportEntry*> TransportModules::open(const std::string& path) {
  auto found = opened_.find(path);
  if (found == opened_.end()) found = opened_.emplace(path, load(path)).first;
  return found->second;
}

std::string TransportModules::fileOf(const TransportEntry* entry) const {
  for (const auto& [path, opened] : opened_) {
    if (opened.ok() && *opened == entry) return path;
  }
  return "";
}

}  // namespace eccl::transport
