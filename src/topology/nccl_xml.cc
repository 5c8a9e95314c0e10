// Files of NCCL's XML.
#include "topology/nccl_xml.h"

#include "base/text_file.h"

namespace eccl {

Result<Host> loadNcclXml(const std::string& path) {
  // One byte more than is allowed, so that the parser sees that it is too much.
  ECCL_ASSIGN(const std::string text, readBeginning(path, "the topology", kMostXmlBytes + 1));
  return parseNcclXml(text, path);
}

Status saveNcclXml(const Host& host, const std::string& path) {
  ECCL_TRY(validate(host));
  return writeTextFile(path, toNcclXml(host), "the topology");
}

}  // namespace eccl
