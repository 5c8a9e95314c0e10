// The architecture as a law: which layer includes which, that folders include each other in one direction only,
// that a layer is a namespace, that no type has two definitions, and the size of files.
//
//   base <- program <- algorithms, kernels, transport     base <- topology     all <- runtime
//
// Siblings do not see each other. The public headers, the perf tools and tools/common see no layer at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
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
    {"program", {"base", "program"}},
    {"topology", {"base", "topology"}},
    {"algorithms", {"base", "program", "algorithms"}},
    {"kernels", {"base", "program", "kernels", "hwy"}},  // hwy: Highway, a library
    {"transport", {"base", "program", "transport"}},
    {"runtime", {"base", "program", "topology", "algorithms", "kernels", "transport", "runtime"}},
};
constexpr int kMaxLines = 400;

/// The path of every quoted include.
std::vector<std::string> includedPaths(const std::string& text) {
  static const std::regex include(R"rx(^[ \t]*#[ \t]*include[ \t]*"([^"]*)")rx", std::regex::multiline);
  std::vector<std::string> paths;
  for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it)
    paths.push_back((*it)[1]);
  return paths;
}

/// The first folder of every quoted include: "base/status.h" gives "base"; a name without folder gives "".
std::vector<std::string> includedFolders(const std::string& text) {
  std::vector<std::string> folders;
  for (const std::string& path : includedPaths(text))
    folders.push_back(path.find('/') == path.npos ? "" : path.substr(0, path.find('/')));
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

using Graph = std::map<std::string, Folders>;  // folder: those whose headers its files include

/// A cycle of the graph, such as "a -> b -> a", or nothing.
std::string cycleIn(const Graph& graph) {
  std::set<std::string> done;
  std::vector<std::string> way;
  std::function<std::string(const std::string&)> visit = [&](const std::string& folder) -> std::string {
    const auto before = static_cast<size_t>(std::find(way.begin(), way.end(), folder) - way.begin());
    way.push_back(folder);
    if (before + 1 < way.size()) {
      std::string text;
      for (size_t at = before; at < way.size(); ++at) text += (text.empty() ? "" : " -> ") + way[at];
      return text;
    }
    if (const auto next = graph.find(folder); done.insert(folder).second && next != graph.end()) {
      for (const std::string& other : next->second) {
        if (std::string found = visit(other); !found.empty()) return found;
      }
    }
    way.pop_back();
    return "";
  };
  for (const auto& [folder, others] : graph) {
    if (std::string found = visit(folder); !found.empty()) return found;
  }
  return "";
}

/// The named namespaces that `text` opens outside of any other.
std::set<std::string> namespacesOf(const std::string& text) {
  static const std::regex opened(R"rx(^(?:inline )?namespace ([\w:]+ )?\{)rx");
  std::set<std::string> names;
  int depth = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, opened)) {
      if (depth++ == 0 && found[1].matched) names.insert(found[1].str().substr(0, found[1].length() - 1));
    } else if (line.rfind("}  // namespace", 0) == 0) {
      --depth;
    }
  }
  return names;
}

/// The types defined at the margin of `text`, qualified, outside unnamed namespaces: what other files could
/// define too.
std::vector<std::string> typesOf(const std::string& text) {
  static const std::regex type(
      R"rx(^(?:class|struct|union|enum(?: class| struct)?)(?: alignas\([^)]*\))? (\w+)(?!\w|::)[^;()]*\{.*)rx");
  static const std::regex opened(R"rx(^namespace ([\w:]+ )?\{)rx");
  static const std::regex closed(R"rx(^\}  // namespace.*)rx");
  std::vector<std::string> types, open;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, opened))
      open.push_back(found[1]);
    else if (std::regex_match(line, closed) && !open.empty())
      open.pop_back();
    else if (std::regex_match(line, found, type) && std::find(open.begin(), open.end(), "") == open.end()) {
      std::string name;
      for (const std::string& each : open) name += each.substr(0, each.size() - 1) + "::";
      types.push_back(name + found[1].str());
    }
  }
  return types;
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
  EXPECT_EQ(cycleIn({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}), "");
  EXPECT_EQ(cycleIn({{"a", {"b"}}, {"b", {"c"}}, {"c", {"b"}}}), "b -> c -> b");
  EXPECT_EQ(namespacesOf("namespace eccl::a {\nnamespace c {\n}  // namespace c\n}  // namespace eccl::a\n"
                         "namespace b {\n"),
            (std::set<std::string>{"eccl::a", "b"}));
  const char* const types =
      "namespace eccl {\nstruct A {\n  struct Inner {};\n};\nclass B;\nstruct C f() {\nnamespace {\nenum D { e "
      "};\n"
      "}  // namespace\nenum class E : int { e };\nclass F final : A {\n}  // namespace eccl\n";
  EXPECT_EQ(typesOf(types), (std::vector<std::string>{"eccl::A", "eccl::E", "eccl::F"}));
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

TEST(Layers, FoldersIncludeEachOtherInOneDirectionOnly) {
  Graph graph;
  for (const File& file : filesUnder("src")) {
    const std::string folder = fs::relative(file.path.parent_path(), fs::path(ECCL_SOURCE_DIR) / "src");
    for (const std::string& path : includedPaths(file.text)) {
      const std::string other = fs::path(path).parent_path();
      if (other != folder) graph[folder].insert(other);
    }
  }
  EXPECT_GT(graph.size(), 20U);
  EXPECT_EQ(cycleIn(graph), "");
}

// What every layer speaks of, base and program, is in eccl itself.
TEST(Layers, ALayerIsANamespace) {
  for (const auto& [layer, sees] : kSees) {
    const std::string its = layer == "base" || layer == "program" ? "eccl" : "eccl::" + layer;
    for (const File& file : filesUnder("src/" + layer)) {
      for (const std::string& name : namespacesOf(file.text)) {
        if (name == "HWY_NAMESPACE") continue;
        EXPECT_TRUE(name == its || name.rfind(its + "::", 0) == 0) << file.path << " is in namespace " << name;
      }
    }
  }
}

// Two types of one name in one program are undefined behavior that no compiler and no linker tells of.
TEST(Layers, ATypeHasOneDefinition) {
  std::map<std::string, fs::path> defined;
  for (const File& file : filesUnder("src")) {
    for (const std::string& name : typesOf(file.text)) {
      const auto [first, isNew] = defined.emplace(name, file.path);
      EXPECT_TRUE(isNew) << name << " is defined in " << first->second << " and in " << file.path;
    }
  }
  EXPECT_GT(defined.size(), 200U);
}

TEST(Layers, PublicHeadersIncludeNothingOfTheSources) {
  const std::vector<File> headers = filesUnder("include");
  EXPECT_GE(headers.size(), 3U);
  for (const File& file : headers) {
    for (const std::string& folder : includedFolders(file.text)) EXPECT_EQ(folder, "eccl") << file.path;
  }
}

// The perf tools and examples are programs like a user's. What all tools share must not need more than they may
// see; the tools that look into the library see that too.
TEST(Layers, PerfToolsAndExamplesUseOnlyThePublicHeaders) {
  const std::map<std::string, std::regex> allowed = {
      {"tools/common", std::regex("(eccl|tools/common)/.*")},
      {"perf/common", std::regex("(eccl|tools/common|common)/.*")},
      {"examples", std::regex("eccl/.*")},
  };
  for (const auto& [folder, paths] : allowed) {
    const std::vector<File> files = filesUnder(folder);
    EXPECT_FALSE(files.empty()) << folder;
    for (const File& file : files) {
      for (const std::string& path : includedPaths(file.text))
        EXPECT_TRUE(std::regex_match(path, paths)) << file.path << " includes " << path;
    }
  }
}

TEST(Layers, ToolsUseNothingOfThePerfTools) {
  for (const File& file : filesUnder("tools")) {
    for (const std::string& folder : includedFolders(file.text)) EXPECT_NE(folder, "common") << file.path;
  }
}

TEST(Layers, FilesStayShort) {
  for (const File& file : filesUnder("src")) {
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    EXPECT_LE(lines, kMaxLines) << file.path << " has more than one reason to change";
  }
}

}  // namespace
