// Stands in for nccl_xml_read.cc in a build without pugixml.
#include "topology/formats/nccl_xml.h"

namespace eccl::topology {

Result<Host> parseNcclXml(std::string_view, const std::string& name, std::vector<std::string>*) {
  return Status::error(
      Code::invalidUsage,
      "%s cannot be read: this ECCL was built without pugixml. Install libpugixml-dev and build it "
      "again",
      name.c_str());
}

}  // namespace eccl::topology
