// Reading settings: which source wins, and what is wrong with a value, a name or a line. Everything is
// checked, also what a better source overrides.
#include "base/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/settings_table.h"
#include "base/text_file.h"

namespace eccl {
namespace {

/// Names that other programs give a meaning: the perf tools and scripts, and builds that look for the package.
constexpr const char* kForeignPrefixes[] = {"TESTS_", "DEMO_"};
constexpr const char* kForeignNames[] = {"ROOT", "DIR", "HOME"};

using Row = SettingRow;
using Rule = SettingRule;
constexpr std::string_view kPrefix = kSettingPrefix;

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

bool isForeign(std::string_view name) {
  name.remove_prefix(kPrefix.size());
  return std::any_of(std::begin(kForeignPrefixes), std::end(kForeignPrefixes),
                     [&](const char* prefix) { return begins(name, prefix); }) ||
         std::find(std::begin(kForeignNames), std::end(kForeignNames), name) != std::end(kForeignNames);
}

bool readElsewhere(const Row& row) {
  return std::holds_alternative<std::monostate>(row.member);
}

/// Levenshtein's distance.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row[b.size()];
}

/// " Did you mean ECCL_ALGO?", or nothing when no name is near.
std::string suggestion(std::string_view name) {
  constexpr size_t kLongest = 64;  // a name of a megabyte resembles none
  const Row* best = nullptr;
  size_t nearest = 4;
  if (name.size() > kLongest) return "";
  for (const Row& row : settingRows()) {
    const size_t found = editDistance(name, std::string(kPrefix) + row.info.name);
    if (found < nearest && found <= std::strlen(row.info.name) / 2) {
      nearest = found;
      best = &row;
    }
  }
  return best == nullptr ? "" : format(" Did you mean ECCL_%s?", best->info.name);
}

std::string shortened(std::string_view text) {
  constexpr size_t kShown = 80;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r";
  const size_t first = text.find_first_not_of(kSpace);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Gathers values, a better source overwriting a worse one. Every source is checked, also where a better one
/// wins: a wrong line does not become right by being overridden today.
class Reader {
 public:
  Status set(const Row& row, std::string_view name, std::string_view value, const std::string& source) {
    // NCCL knows more levels of its own NCCL_DEBUG, and the log takes them all.
    const bool othersRules = readElsewhere(row) && !begins(name, kPrefix);
    if (!othersRules && !assign(settings_, row, value)) {
      return Status::error(Code::invalidArgument, "%s=%s (%s) is not allowed: it takes %s",
                           std::string(name).c_str(), row.secret ? "..." : shortened(value).c_str(),
                           source.c_str(), row.info.values);
    }
    Origin& origin = origins_[static_cast<size_t>(&row - settingRows().data())];
    origin = {source, readElsewhere(row) ? std::string(value) : ""};
    return {};
  }

  Status readFile(const std::string& path, std::string_view content) {
    std::map<const Row*, int> seen;
    int number = 0;
    while (!content.empty()) {
      const size_t end = std::min(content.find('\n'), content.size());
      std::string_view line = content.substr(0, end);
      content.remove_prefix(std::min(end + 1, content.size()));
      ++number;
      if (const size_t comment = line.find('#'); comment != line.npos) line = line.substr(0, comment);
      line = trimmed(line);
      if (!line.empty()) ECCL_TRY(readLine(format("%s:%d", path.c_str(), number), line, number, seen));
    }
    return {};
  }

  Status readEnvironment(const std::function<const char*(const char*)>& environment,
                         const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (begins(name, kPrefix) && findSetting(name) == nullptr && !isForeign(name))
        return unknown(name, "the environment");
    }
    for (const Row& row : settingRows()) {
      std::string name = std::string(kPrefix) + row.info.name;
      const char* value = environment(name.c_str());
      if (value == nullptr && row.info.ncclName != nullptr) {
        name = row.info.ncclName;
        value = environment(name.c_str());
      }
      if (value != nullptr) ECCL_TRY(set(row, name, value, "environment (" + name + ")"));
    }
    return {};
  }

  void explain(std::vector<SettingValue>& values) const {
    values.clear();
    for (size_t i = 0; i < origins_.size(); ++i) {
      const Row& row = settingRows()[i];
      std::string text = readElsewhere(row) ? origins_[i].elsewhere : textOf(settings_, row);
      if (row.secret && !text.empty()) text = "(not shown)";
      values.push_back({&row.info, std::move(text), origins_[i].source});
    }
  }

  Settings& settings() { return settings_; }

 private:
  static Status unknown(std::string_view name, const std::string& where) {
    return Status::error(Code::invalidArgument,
                         "%s in %s is not a setting of ECCL.%s 'eccl_info --settings' lists them. If the name "
                         "belongs to another program, keep it from this one ('env -u NAME command')",
                         shortened(name).c_str(), where.c_str(), suggestion(name).c_str());
  }

  Status readLine(const std::string& where, std::string_view line, int number,
                  std::map<const Row*, int>& seen) {
    const size_t equals = line.find('=');
    if (equals == line.npos || equals == 0) {
      return Status::error(Code::invalidArgument, "%s: this line is not of the form ECCL_NAME=VALUE",
                           where.c_str());
    }
    const std::string_view name = trimmed(line.substr(0, equals)), value = trimmed(line.substr(equals + 1));
    const Row* row = findSetting(name);
    if (row == nullptr) {
      // A file written for NCCL may be shared; what ECCL does not understand of it is NCCL's business.
      return begins(name, "NCCL_") ? Status() : unknown(name, where);
    }
    if (readElsewhere(*row)) {
      if (begins(name, "NCCL_")) return {};
      return Status::error(Code::invalidArgument,
                           "%s: ECCL_%s works in the environment only: export it there and delete this line",
                           where.c_str(), row->info.name);
    }
    if (auto [first, fresh] = seen.emplace(row, number); !fresh) {
      return Status::error(Code::invalidArgument,
                           "%s: ECCL_%s is set in line %d already: delete one of the two", where.c_str(),
                           row->info.name, first->second);
    }
    return set(*row, name, value, where);
  }

  Settings settings_;
  struct Origin {
    std::string source = "default", elsewhere;  // elsewhere: the text of a setting that has no member
  };
  std::vector<Origin> origins_ = std::vector<Origin>(settingRows().size());
};

/// The content; nothing if there is no such file and none is required.
Result<std::string> readSmallFile(const std::string& path, bool required) {
  constexpr size_t kMax = 1 << 20;
  if (!required && access(path.c_str(), F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
    return std::string();
  auto text = readTextFile(path, "the settings file", kMax);
  if (text.ok()) return text;
  return Status::error(text.status().code(), "%s; correct %s", text.status().message().c_str(),
                       required ? "ECCL_CONF_FILE" : "its permissions or remove it");
}

Result<Settings> load(std::vector<SettingValue>* explained) {
  const char* named = std::getenv("ECCL_CONF_FILE");
  if (named == nullptr) named = std::getenv("NCCL_CONF_FILE");
  const char* home = std::getenv("HOME");
  std::vector<std::pair<std::string, std::string>> files;
  if (named != nullptr || home != nullptr) {
    std::string path = named != nullptr ? named : std::string(home) + "/.eccl.conf";
    ECCL_ASSIGN(std::string text, readSmallFile(path, named != nullptr));
    files.emplace_back(std::move(path), std::move(text));
  }
  ECCL_ASSIGN(std::string text, readSmallFile("/etc/eccl.conf", false));
  files.emplace_back("/etc/eccl.conf", std::move(text));
  std::vector<std::string> names;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    names.emplace_back(*variable, std::strcspn(*variable, "="));
  }
  return parseSettings([](const char* name) { return std::getenv(name); }, names, files, explained);
}

}  // namespace

Result<Settings> loadSettings(std::vector<SettingValue>* explained) {
  return logged(load(explained));
}

Result<Settings> parseSettings(const std::function<const char*(const char* name)>& environment,
                               const std::vector<std::string>& environmentNames,
                               const std::vector<std::pair<std::string, std::string>>& files,
                               std::vector<SettingValue>* explained) {
  Reader reader;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    ECCL_TRY(reader.readFile(file->first, file->second));
  }
  ECCL_TRY(reader.readEnvironment(environment, environmentNames));
  if (explained != nullptr) reader.explain(*explained);
  return std::move(reader.settings());
}

}  // namespace eccl
