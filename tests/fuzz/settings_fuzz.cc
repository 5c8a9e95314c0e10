// The settings' parsers: lines before "%%" are environment variables, what follows is a file.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "base/settings.h"

namespace {

eccl::Result<eccl::Settings> parse(const std::map<std::string, std::string>& variables, std::string file,
                                   std::vector<eccl::SettingValue>* explained) {
  std::vector<std::string> names;
  for (const auto& [name, value] : variables) names.push_back(name);
  auto environment = [&](const char* name) {
    auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return eccl::parseSettings(environment, names, {{"file", std::move(file)}}, explained);
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t middle = std::min(text.find("%%"), text.size());
  std::string_view head = text.substr(0, middle);
  std::map<std::string, std::string> variables;
  while (!head.empty()) {
    const size_t end = std::min(head.find('\n'), head.size());
    const std::string_view line = head.substr(0, end);
    const size_t equals = line.find('=');
    // What execve() can hand over: no NUL inside.
    if (equals != line.npos && line.find('\0') == line.npos) {
      variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  std::vector<eccl::SettingValue> explained;
  auto settings = parse(variables, std::string(text.substr(std::min(middle + 2, text.size()))), &explained);
  if (!settings.ok()) {
    require(!settings.status().message().empty() && settings.status().message().size() < 1000);
    return 0;
  }
  require(explained.size() == eccl::settingTable().size());
  require(settings->slots >= 2 && settings->slotBytes >= 0 && settings->slotBytes % 64 == 0 &&
          settings->initTimeout > 0);
  // What the ranks compare can be read back, and says the same.
  auto again = parse({}, settings->wireText(), nullptr);
  require(again.ok() && again->wireText() == settings->wireText());
  return 0;
}
