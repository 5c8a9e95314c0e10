// The RDMA devices of this host: which of their ports are used, and why others are not.
#pragma once

#include <string>
#include <vector>

#include "transport/verbs/handles.h"
#include "transport/verbs/ports.h"

namespace eccl::transport::verbs {

/// The devices of this host, opened, and what is said of each port. A value.
struct FoundDevices {
  struct Device {
    ContextHandle context;
    std::vector<Port> ports;  ///< that are used; none: the device is not
  };
  std::vector<Device> devices;
  std::vector<std::string> said;  ///< a line for each port or device
  bool any() const;
};

/// By what the settings say.
FoundDevices findDevices(const VerbsOptions& options);

}  // namespace eccl::transport::verbs
