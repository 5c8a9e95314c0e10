// Files of NCCL's XML.
#include "topology/nccl_xml.h"

#include <cerrno>
#include <cstdio>
#include <memory>

namespace eccl {

Result<Host> loadNcclXml(const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "re"), close);
  if (file == nullptr) return Status::fromErrno(errno, "the topology %s cannot be opened", path.c_str());
  std::string text;
  char piece[1 << 14];
  // A little more than is allowed, so that the parser sees that it is too much; pipes have no size to ask for.
  while (text.size() <= kMostXmlBytes) {
    const size_t count = std::fread(piece, 1, sizeof piece, file.get());
    if (count == 0) break;
    text.append(piece, count);
  }
  if (std::ferror(file.get()) != 0)
    return Status::fromErrno(errno, "the topology %s cannot be read", path.c_str());
  return parseNcclXml(text, path);
}

Status saveNcclXml(const Host& host, const std::string& path) {
  ECCL_TRY(validate(host));
  const std::string text = toNcclXml(host);
  std::FILE* file = std::fopen(path.c_str(), "we");
  if (file == nullptr)
    return Status::fromErrno(errno, "the topology %s cannot be opened for writing", path.c_str());
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int why = errno;
  if (std::fclose(file) != 0 || !written)  // a full disk may show only now
    return Status::fromErrno(written ? errno : why, "the topology %s cannot be written", path.c_str());
  return {};
}

}  // namespace eccl
