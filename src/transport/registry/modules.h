// Transports that are opened at run time (core/transport_module.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/core/transport.h"

namespace eccl::transport {

/// The modules of this process. Each file is opened once, and stays open: paths of its connections may outlive
/// every communicator. One thread at a time.
class TransportModules {
 public:
  /// Errors name the file and say what to do: there is none, it cannot be loaded, it is no transport module, it
  /// is of another version. The same file again gives the same answer. Not logged.
  Result<const TransportEntry*> open(const std::string& path);
  /// Where modules of this installation are: the folder eccl/ beside libeccl.so.
  static const std::string& folder();
  /// The file of the transport of this name in that folder, whether or not there is one.
  static std::string pathOf(const std::string& name);
  /// The files in that folder whose names are a module's, sorted.
  static std::vector<std::string> found();

 private:
  std::map<std::string, Result<const TransportEntry*>> opened_;  // by path
};

}  // namespace eccl::transport
