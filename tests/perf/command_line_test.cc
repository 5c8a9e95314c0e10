#include "tools/common/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace eccl::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Values {
  bool all = false;
  int ranks = 0;
  size_t bytes = 0;
  std::string file;
  std::vector<std::string> with;
};

std::vector<CommandOption> tableFor(Values* v) {
  return {
      {0, nullptr, nullptr, "Of what there is:", {}},
      {'n', "ranks", "N", "how many", setNumber(&v->ranks, 1, 8)},
      {0, "bytes", "BYTES", "how large", setSize(&v->bytes, 4096)},
      {'f', "file", "FILE", "from where", setText(&v->file)},
      {0, "with", "FILE", "what else; may be repeated", addText(&v->with)},
      {0, "all", nullptr, "everything", setFlag(&v->all)},
  };
}

Outcome parse(std::vector<std::string> arguments, Values* values, std::vector<std::string>* words) {
  arguments.insert(arguments.begin(), "tool");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  return parseCommandLine(static_cast<int>(arguments.size()), argv.data(), tableFor(values), words);
}

TEST(CommandLine, OptionsAndWordsInAnyOrder) {
  Values values;
  std::vector<std::string> words;
  const Outcome outcome = parse(
      {"one", "-n4", "--bytes=8K", "two", "--with", "a", "--with=b", "--all", "-f", "-"}, &values, &words);
  ASSERT_TRUE(outcome.ok()) << outcome.text();
  EXPECT_EQ(values.ranks, 4);
  EXPECT_EQ(values.bytes, 8192U);
  EXPECT_EQ(values.file, "-");
  EXPECT_THAT(values.with, ElementsAre("a", "b"));
  EXPECT_TRUE(values.all);
  EXPECT_THAT(words, ElementsAre("one", "two"));
}

TEST(CommandLine, WhatIsWrongIsNamed) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--ranks", "9"}, "--ranks 9 is not a number from 1 to 8"},
      {{"-n", "4x"}, "--ranks 4x is not a number from 1 to 8"},
      {{"--bytes", "4095"}, "--bytes 4095 is no size of 4K or more"},
      {{"--fly"}, "there is no option '--fly'"},
      {{"one", "-x"}, "there is no option '-x'"},
      {{"--all=1"}, "there is no option '--all=1'"},
      {{"--all", "-n"}, "option '-n' requires an argument"},
      {{"--all", "--with"}, "option '--with' requires an argument"},
  };
  for (const auto& [arguments, text] : cases) {
    Values values;
    std::vector<std::string> words;
    const Outcome outcome = parse(arguments, &values, &words);
    EXPECT_EQ(outcome.code(), Exit::usage) << text;
    EXPECT_EQ(outcome.text(), text);
  }
  Values values;
  EXPECT_EQ(parse({"one"}, &values, nullptr).text(), "'one' is one argument too many");
}

TEST(CommandLine, HelpSaysAllAndBreaksLongLines) {
  Values values;
  auto table = tableFor(&values);
  table[1].help = "";
  for (int i = 0; i < 40; ++i) table[1].help += "many ";
  const std::string text = helpText(table);
  EXPECT_THAT(text, HasSubstr("Of what there is:\n"));
  EXPECT_THAT(text, HasSubstr("  -n,--ranks N              many many"));
  EXPECT_THAT(text, HasSubstr("     --bytes BYTES          how large\n"));
  EXPECT_THAT(text, HasSubstr("     --all                  everything\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U) << line;
}

}  // namespace
}  // namespace eccl::tools
