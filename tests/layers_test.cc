// The layer law, and the size of files: base <- topology <- algorithms; base <- kernels <- transport; runtime
// sees all; the public headers and the perf tools see no layer at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Folders = std::set<std::string>;

const std::map<std::string, Folders> kSees = {
    {"base", {"base"}},
    {"topology", {"base", "topology"}},
    {"algorithms", {"base", "topology", "algorithms"}},
    {"kernels", {"base", "kernels", "hwy"}},  // hwy: Highway, a library
    {"transport", {"base", "kernels", "transport"}},
    {"runtime", {"base", "topology", "algorithms", "kernels", "transport", "runtime"}},
};
constexpr int kMostLines = 400;

/// The first folder of every quoted include: "base/status.h" gives "base"; a name without folder gives "".
std::vector<std::string> includedFolders(const std::string& text) {
  static const std::regex include(R"rx(^[ \t]*#[ \t]*include[ \t]*"([^"]*)")rx", std::regex::multiline);
  std::vector<std::string> folders;
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it) {
    const std::string path = (*it)[1];
    folders.push_back(path.find('/') == path.npos ? "" : path.substr(0, path.find('/')));
  }
  return folders;
}

/// What of `text`, a file of `layer`, breaks the law: folders that it must not include.
Folders forbidden(const std::string& layer, const std::string& text) {
  Folders found;
  for (const std::string& folder : includedFolders(text)) {
    if (folder != "eccl" && kSees.at(layer).count(folder) == 0)
      found.insert(folder.empty() ? "(none)" : folder);
  }
  return found;
}

struct File {
  fs::path path;
  std::string text;
};

std::vector<File> filesUnder(const std::string& folder) {
  std::vector<File> files;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(ECCL_SOURCE_DIR) / folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc" && extension != ".hpp" && extension != ".cu" &&
        extension != ".c") {
      continue;
    }
    std::ifstream in(entry.path());
    std::stringstream text;
    text << in.rdbuf();
    files.push_back({entry.path(), text.str()});
  }
  return files;
}

TEST(Layers, TheCheckSeesViolations) {
  EXPECT_EQ(forbidden("algorithms", "#include \"transport/net/fd.h\"\n"), Folders{"transport"});
  EXPECT_EQ(forbidden("base", "int x;\n #  include \"runtime/call.h\" // why\n"), Folders{"runtime"});
  EXPECT_EQ(forbidden("transport", "#include \"algorithms/verify.h\"\n#include \"status.h\"\n"),
            (Folders{"algorithms", "(none)"}));
  EXPECT_EQ(forbidden("kernels", "#include \"base/types.h\"\n#include <vector>\n"), Folders{});
}

TEST(Layers, SourcesIncludeOnlyWhatTheirLayerMaySee) {
  int checked = 0;
  for (const auto& [layer, sees] : kSees) {
    for (const File& file : filesUnder("src/" + layer)) {
      ++checked;
      for (const std::string& folder : forbidden(layer, file.text)) {
        ADD_FAILURE() << file.path << " includes a header of " << folder << "; " << layer << " may not";
      }
    }
  }
  EXPECT_GT(checked, 50);
  for (const auto& entry : fs::directory_iterator(fs::path(ECCL_SOURCE_DIR) / "src")) {
    if (entry.is_directory()) {
      EXPECT_EQ(kSees.count(entry.path().filename()), 1U) << entry.path() << " is no layer";
    }
  }
}

TEST(Layers, PublicHeadersIncludeNothingOfTheSources) {
  const std::vector<File> headers = filesUnder("include");
  EXPECT_GE(headers.size(), 3U);
  for (const File& file : headers) {
    for (const std::string& folder : includedFolders(file.text)) EXPECT_EQ(folder, "eccl") << file.path;
  }
}

TEST(Layers, PerfToolsAndExamplesUseOnlyThePublicHeaders) {
  for (const char* folder : {"perf/common", "examples"}) {
    for (const File& file : filesUnder(folder)) {
      for (const std::string& included : includedFolders(file.text)) {
        EXPECT_TRUE(included == "eccl" || included == "common")
            << file.path << " includes a header of " << included;
      }
    }
  }
}

TEST(Layers, FilesStayShort) {
  for (const File& file : filesUnder("src")) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    EXPECT_LE(lines, kMostLines) << file.path << " has more than one reason to change";
  }
}

}  // namespace
