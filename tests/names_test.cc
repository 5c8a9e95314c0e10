// Names that std has too. A call without "std::" whose arguments are of std finds both functions
// (argument-dependent lookup): which headers of the compiler include which decides whether that compiles.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

// Function templates and overloads of std that strings, views, containers, smart pointers and the like are
// passed to.
const std::set<std::string> kOfStd = [] {
  std::istringstream words(
      "accumulate advance align all_of any_of apply assume_aligned async begin bind bit_cast ceil clamp "
      "copy count count_if crbegin data destroy distance empty end equal erase erase_if exchange fill find "
      "find_if floor for_each format format_to forward from_chars generate get get_if get_time getline "
      "hash holds_alternative includes inserter invoke iota lock make_pair make_tuple make_view max "
      "max_element merge min min_element minmax mismatch move next none_of none_of partition prev print "
      "println quoted rbegin ref reduce remove rename remove_if replace reverse rotate round sample search "
      "set_union shuffle size sort ssize stable_sort stod stoi stol stoul swap tie to_address to_array "
      "to_chars to_string transform unique visit absolute canonical current_path equivalent exists "
      "file_size is_directory is_empty is_socket permissions proximate read_symlink relative remove_all "
      "space status temp_directory_path weakly_canonical");
  return std::set<std::string>(std::istream_iterator<std::string>(words), {});
}();

/// The functions declared at the margin of `text`, so in a namespace, that a call with arguments of std may not
/// mean.
std::vector<std::string> ambiguous(const std::string& text) {
  static const std::regex declaration(
      R"rx((?:^|\n)(?!return|else|#|/|\}|using|typedef)[A-Za-z_][\w:<>,*& \[\]]*[ *&](\w+)\(([^)]*)\))rx");
  static const std::regex ofStd(R"(\bstd::(?!(?:u?int\d+_t|size_t|ptrdiff_t|byte)\b)\w)");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), declaration), end; it != end; ++it) {
    const std::string name = (*it)[1], parameters = (*it)[2];
    if (kOfStd.count(name) != 0 && std::regex_search(parameters, ofStd)) found.push_back(name);
  }
  return found;
}

TEST(Names, TheCheckSeesAmbiguousOnes) {
  using Found = std::vector<std::string>;
  EXPECT_EQ(ambiguous("std::string quoted(std::string_view text) {\n"), Found{"quoted"});
  EXPECT_EQ(ambiguous("int x;\nbool empty(int count,\n           const std::string& text);\n"), Found{"empty"});
  EXPECT_EQ(ambiguous("std::string format(const char* fmt, ...);\n"), Found{});  // no argument of std
  EXPECT_EQ(ambiguous("void copy(std::size_t count, std::uint8_t* to);\n"), Found{});
  EXPECT_EQ(ambiguous("class X {\n  bool empty(const std::string& text);\n};\n"), Found{});  // a member
  EXPECT_EQ(ambiguous("std::string inQuotes(std::string_view text) {\n"), Found{});
}

TEST(Names, NoFunctionForThingsOfStdIsCalledLikeOneOfStd) {
  int checked = 0;
  for (const char* folder : {"src", "tools", "include", "perf", "tests", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ECCL_SOURCE_DIR) / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".hpp") continue;
      std::ifstream in(entry.path());
      std::stringstream text;
      text << in.rdbuf();
      ++checked;
      for (const std::string& name : ambiguous(text.str()))
        ADD_FAILURE() << entry.path() << " declares " << name << "(), which std has too";
    }
  }
  EXPECT_GT(checked, 300);
}

}  // namespace
