// By which device a path without sockets goes, and between which ends.
#pragma once

#include <string>

namespace eccl::transport {

/// A value. Texts for people; what there is nothing to say of is empty.
struct LinkReport {
  std::string device;         ///< of this host, with its port: "mlx5_0:1"
  std::string local, remote;  ///< the ends
};

}  // namespace eccl::transport
