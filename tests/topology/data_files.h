// The real topologies beside this file.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "topology/formats/nccl_xml.h"

namespace eccl {

/// Reading XML is optional in a build.
inline bool canReadXml() {
  return topology::parseNcclXml("", "probe").status().code() != Code::invalidUsage;
}
#define ECCL_NEEDS_XML() \
  if (!canReadXml()) GTEST_SKIP() << "built without pugixml"

inline std::string dataFolder() {
  return std::string(ECCL_SOURCE_DIR) + "/tests/topology/data/";
}

inline std::string contentOfFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::string> dataFiles() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dataFolder())) {
    if (entry.path().extension() == ".xml") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline topology::Host dataHost(const std::string& name) {
  Result<topology::Host> host = topology::loadNcclXml(dataFolder() + name);
  EXPECT_TRUE(host.ok()) << host.status().message();
  return host.ok() ? host.take() : topology::Host{};
}

}  // namespace eccl
