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
  /// The transport of a module. Errors name the file and say what to do: system if it cannot be loaded, which
  /// includes that there is none; invalidUsage if it is no transport module or of another version, or if this
  /// process has more rights than its user. Not logged. The same path again gives the same answer, an error
  /// too.
  Result<const TransportEntry*> open(const std::string& path);
  /// The file that brought a transport; empty: none of those opened.
  std::string fileOf(const TransportEntry* entry) const;
  /// Where modules of this installation are: the folder eccl/ beside libeccl.so. An absolute path. Any
  /// thread.
  static const std::string& folder();
  /// The file of the transport of this name in that folder, whether or not there is one.
  static std::string pathOf(const std::string& name);
  /// The files in that folder whose names are a module's, sorted.
  static std::vector<std::string> found();

 private:
  std::map<std::string, Result<const TransportEntry*>> opened_;  // by path
};

}  // namespace eccl::transport
