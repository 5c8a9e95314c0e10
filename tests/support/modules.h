// The transport modules of tests/modules, and those that are built with the library.
#pragma once

#include <filesystem>
#include <string>

namespace eccl::test {

inline std::string transportModule(const std::string& name) {
  return std::string(ECCL_BINARY_DIR) + "/tests/modules/libeccl_transport_" + name + ".so";
}

/// The file of a transport module that is built with the library; empty: it was left out.
inline std::string builtModule(const std::string& name) {
  const std::string path = std::string(ECCL_BINARY_DIR) + "/src/eccl/named/libeccl_transport_" + name + ".so";
  std::error_code none;
  return std::filesystem::exists(path, none) ? path : "";
}

}  // namespace eccl::test
