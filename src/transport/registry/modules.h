// Transports that are opened at run time (core/transport_module.h).
#pragma once

#include <map>
#include <string>

#include "transport/core/transport_module.h"

namespace eccl::transport {

inline constexpr ModuleKind kTransportModules = {"transport module", kModuleSymbol, "libeccl_transport_",
                                                 "ECCL_TRANSPORT_MODULES"};

/// The modules of this process. Each file is opened once, and stays open: paths of its connections may outlive
/// every communicator. One thread at a time.
class TransportModules {
 public:
  /// The transport of a module. Errors: openModule()'s. The same path again gives the same answer, an error
  /// too.
  Result<const TransportEntry*> open(const std::string& path);
  /// The file that brought a transport; empty: none of those opened.
  std::string fileOf(const TransportEntry* entry) const;

 private:
  std::map<std::string, Result<const TransportEntry*>> opened_;  // by path
};

}  // namespace eccl::transport
