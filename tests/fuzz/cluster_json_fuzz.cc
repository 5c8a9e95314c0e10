// Clusters as JSON: whatever is accepted is a valid cluster, which is written and read again the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/formats/cluster_json.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

eccl::Result<eccl::topology::Host> noFiles(const std::string& path) {
  return eccl::Status::error(eccl::Code::system, "%s is not read", path.substr(0, 40).c_str());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const eccl::Result<eccl::topology::Cluster> cluster =
      eccl::topology::parseClusterJson(text, "input", noFiles);
  if (cluster.status().code() == eccl::Code::invalidUsage) return 0;  // built without JSON
  if (!cluster.ok()) {
    require(cluster.status().message().rfind("input", 0) == 0);
    return 0;
  }
  require(eccl::topology::validate(*cluster).ok());
  const eccl::Result<std::string> written = eccl::topology::toJson(*cluster);
  require(written.ok());
  const eccl::Result<eccl::topology::Cluster> again =
      eccl::topology::parseClusterJson(*written, "again", noFiles);
  require(again.ok() && *again == *cluster && *eccl::topology::toJson(*again) == *written);
  return 0;
}
