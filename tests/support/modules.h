// The transport modules of tests/modules, and those that are built with the library.
#pragma once

#include <filesystem>
#include <string>

#include "transport/registry/registry.h"

namespace eccl::test {

inline std::string transportModule(const std::string& name) {
  return std::string(ECCL_BINARY_DIR) + "/tests/modules/libeccl_transport_" + name + ".so";
}

/// Opens the module 'ucx'. An error says why there is none.
inline Status openUcx() {
  const std::string path = std::string(ECCL_BINARY_DIR) + "/src/eccl/libeccl_transport_ucx.so";
  if (std::error_code none; !std::filesystem::exists(path, none))
    return Status::error(Code::system, "the transport module 'ucx' was not built (%s)", path.c_str());
  return transport::openTransportModule(path);
}

}  // namespace eccl::test
