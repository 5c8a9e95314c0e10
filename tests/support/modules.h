// The transport modules of tests/modules.
#pragma once

#include <string>

namespace eccl::test {

inline std::string transportModule(const std::string& name) {
  return std::string(ECCL_BINARY_DIR) + "/tests/modules/libeccl_transport_" + name + ".so";
}

}  // namespace eccl::test
