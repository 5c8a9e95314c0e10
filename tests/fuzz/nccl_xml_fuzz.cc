// Topologies in NCCL's XML: whatever is accepted is a valid host, which is written and read again the same.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "topology/formats/nccl_xml.h"
#include "topology/model/link_model.h"
#include "topology/paths/paths.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const eccl::Result<eccl::topology::Host> host = eccl::topology::parseNcclXml(text, "input");
  if (!host.ok()) {
    require(host.status().message().rfind("input", 0) == 0 && host.status().message().size() < 1000);
    return 0;
  }
  require(eccl::topology::validate(*host).ok());
  const std::string written = eccl::topology::toNcclXml(*host);
  const eccl::Result<eccl::topology::Host> again = eccl::topology::parseNcclXml(written, "again");
  require(again.ok() && *again == *host && eccl::topology::toNcclXml(*again) == written);
  for (const eccl::topology::Link& link : eccl::topology::linksOf(*host))
    require(link.gigabytes > 0 && link.gigabytes < 1e30 && link.microseconds >= 0 && link.source[0] != 0);
  if (host->devices.empty()) return 0;
  const std::vector<eccl::topology::Path> paths =
      eccl::topology::Paths(*host).from(static_cast<int>(size % host->devices.size()));
  require(paths.size() == host->devices.size());
  for (const eccl::topology::Path& path : paths)
    require((path.type == eccl::topology::PathType::dis) == (path.gigabytes == 0));
  return 0;
}
