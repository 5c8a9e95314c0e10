// What the documents say about the code, where it can be compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/status.h"

namespace eccl {
namespace {

namespace fs = std::filesystem;

std::string contentOf(const fs::path& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path << " cannot be read";
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// `lead` and `text` in backquotes; "" if there is no text.
std::string inBackquotes(const char* lead, std::string text) {
  return text.empty() ? "" : lead + ("`" + std::move(text) + "`");
}

/// The list of docs/settings.md as it has to read: two lines for each setting.
std::vector<std::string> settingLines() {
  std::vector<SettingValue> values;
  EXPECT_TRUE(parseSettings([](const char*) { return nullptr; }, {}, {}, &values).ok());
  std::vector<std::string> lines;
  for (const SettingValue& value : values) {
    const SettingInfo& info = *value.info;
    lines.push_back(format("- **`ECCL_%s`**", info.name) + inBackquotes(" takes ", info.values) +
                    inBackquotes("; default ", value.value) + (info.wire ? "; same on all ranks" : "") +
                    inBackquotes("; in NCCL ", info.ncclName == nullptr ? "" : info.ncclName) + ".");
    lines.push_back(std::string("  ") + info.description);
  }
  return lines;
}

TEST(Docs, SettingsAreThoseOfTheTable) {
  std::vector<std::string> documented;
  std::istringstream lines(contentOf(fs::path(ECCL_SOURCE_DIR) / "docs/settings.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("- **`ECCL_", 0) != 0) continue;
    documented.push_back(line);
    EXPECT_TRUE(std::getline(lines, documented.emplace_back()));
  }
  const std::vector<std::string> expected = settingLines();
  std::string list;
  for (const std::string& line : expected) list += line + "\n";
  EXPECT_EQ(documented, expected) << "the list of docs/settings.md has to be\n" << list;
}

TEST(Docs, ReadmeShowsTheExampleAsItIs) {
  const std::string readme = contentOf(fs::path(ECCL_SOURCE_DIR) / "README.md");
  const std::string c = contentOf(fs::path(ECCL_SOURCE_DIR) / "examples/sum.c");
  EXPECT_NE(readme.find("```c\n" + c + "```\n"), readme.npos)
      << "the program in README.md is not examples/sum.c";
}

/// Every document that people read, relative to the root. perf/results is written by perf/compare.
std::vector<fs::path> documents() {
  std::vector<fs::path> paths = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const auto& entry : fs::directory_iterator(fs::path(ECCL_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() == ".md") paths.push_back(fs::relative(entry.path(), ECCL_SOURCE_DIR));
  }
  EXPECT_GT(paths.size(), 9U);
  return paths;
}

/// In characters, not bytes, of UTF-8.
size_t columnsOf(const std::string& line) {
  return static_cast<size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(Docs, LinesAreUnder120Columns) {
  EXPECT_EQ(columnsOf("a–b"), 3U);
  for (const fs::path& document : documents()) {
    std::istringstream lines(contentOf(ECCL_SOURCE_DIR / document));
    int number = 1;
    for (std::string line; std::getline(lines, line); ++number)
      EXPECT_LT(columnsOf(line), 120U) << document << ":" << number << ": " << line;
  }
}

/// The lines of a text without their blanks.
std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line.erase(std::remove(line.begin(), line.end(), ' '), line.end());
    lines.push_back(line);
  }
  return lines;
}

TEST(Docs, TheGuideShowsAnAlgorithmAsItIs) {
  const std::string guide = contentOf(fs::path(ECCL_SOURCE_DIR) / "CONTRIBUTING.md");
  const std::string chain = contentOf(fs::path(ECCL_SOURCE_DIR) / "src/algorithms/library/broadcast_chain.cc");
  const size_t from = chain.find("Program broadcastChain("), to = chain.find("\n}\n", from);
  ASSERT_TRUE(from != chain.npos && to != chain.npos);
  const size_t begin = guide.find("```cpp\n   Program broadcastChain("), end = guide.find("```\n", begin + 6);
  ASSERT_TRUE(begin != guide.npos && end != guide.npos);
  EXPECT_EQ(linesOf(guide.substr(begin + 7, end - begin - 10)), linesOf(chain.substr(from, to - from + 3)))
      << "the function in CONTRIBUTING.md is not that of broadcast_chain.cc";
}

/// Every relative link of every document leads to a file.
TEST(Docs, LinksLeadSomewhere) {
  static const std::regex link(R"rx(\]\(([^)#]+)[^)]*\))rx");
  for (const fs::path& document : documents()) {
    const std::string text = contentOf(ECCL_SOURCE_DIR / document);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it) {
      const std::string target = (*it)[1];
      if (target.find("://") != target.npos) continue;
      EXPECT_TRUE(fs::exists(ECCL_SOURCE_DIR / document.parent_path() / target))
          << document << " links to " << target << ", which is not there";
    }
  }
}

/// A file of the sources that a document names in backquotes is there, and so is a setting.
TEST(Docs, NamedFilesAndSettingsExist) {
  std::set<std::string> settings = {"ECCL_NAME", "ECCL_ROOT", "ECCL_DIR", "ECCL_HOME"};
  for (const SettingInfo& info : settingTable()) settings.insert(std::string("ECCL_") + info.name);
  static const std::regex file(
      R"rx(`((src|include|tests|perf|tools|scripts|examples|docs|cmake)/[A-Za-z0-9_/.-]+)`)rx");
  static const std::regex setting(R"rx(`(ECCL_[A-Z0-9_]+))rx");
  for (const auto& entry : fs::directory_iterator(fs::path(ECCL_SOURCE_DIR) / "docs")) {
    if (entry.path().extension() != ".md") continue;
    const std::string text = contentOf(entry.path());
    for (std::sregex_iterator it(text.begin(), text.end(), file), end; it != end; ++it) {
      EXPECT_TRUE(fs::exists(fs::path(ECCL_SOURCE_DIR) / (*it)[1].str())) << entry.path() << ": " << (*it)[1];
    }
    for (std::sregex_iterator it(text.begin(), text.end(), setting), end; it != end; ++it) {
      const std::string name = (*it)[1];
      EXPECT_TRUE(settings.count(name) != 0 || name.rfind("ECCL_TESTS_", 0) == 0)
          << entry.path() << ": " << name;
    }
  }
}

}  // namespace
}  // namespace eccl
