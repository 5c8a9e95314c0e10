// Files of NCCL's XML.
#include "topology/formats/nccl_xml.h"

#include "base/text_file.h"

namespace eccl::topology {

Result<Host> loadNcclXml(const std::string& path, std::vector<std::string>* oddities) {
  ECCL_ASSIGN(const std::string text, readTextFile(path, "the topology", kMaxXmlBytes));
  return parseNcclXml(text, path, oddities);
}

Status saveNcclXml(const Host& host, const std::string& path) {
  ECCL_TRY(validate(host));
  return writeTextFile(path, toNcclXml(host), "the topology");
}

}  // namespace eccl::topology
