#include "topology/formats/host_formats.h"

#include <algorithm>

#include "base/text_file.h"
#include "topology/formats/host_json.h"
#include "topology/formats/nccl_xml.h"

namespace eccl::topology {
namespace {

bool beginsWithBrace(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{';
}

const HostFormat kFormats[] = {
    {"json", &beginsWithBrace,
     [](std::string_view text, const std::string& name, std::vector<std::string>*) {
       return parseHostJson(text, name);
     },
     [](const Host& host) { return toJson(host); }},
    {"xml", [](std::string_view) { return true; }, &parseNcclXml,
     [](const Host& host) { return Result<std::string>(toNcclXml(host)); }},
};

}  // namespace

std::span<const HostFormat> hostFormats() {
  return kFormats;
}

const HostFormat* findHostFormat(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kFormats), std::end(kFormats), [&](auto& format) { return name == format.name; });
  return found != std::end(kFormats) ? found : nullptr;
}

Result<Host> parseHost(std::string_view text, const std::string& name, std::vector<std::string>* oddities) {
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                    [&](const HostFormat& each) { return each.recognizes(text); });
  return format->parse(text, name, oddities);
}

Result<Host> loadHost(const std::string& path, std::vector<std::string>* oddities) {
  constexpr size_t kMaxBytes = size_t{16} << 20;
  ECCL_ASSIGN(const std::string text, readTextFile(path, "the topology", kMaxBytes));
  return parseHost(text, path, oddities);
}

}  // namespace eccl::topology
