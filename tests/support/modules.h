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
  for (const char* folder : {"/src/eccl/", "/src/eccl/named/"}) {
    const std::string path = ECCL_BINARY_DIR + std::string(folder) + "libeccl_transport_" + name + ".so";
    if (std::error_code none; std::filesystem::exists(path, none)) return path;
  }
  return "";
}

}  // namespace eccl::test
