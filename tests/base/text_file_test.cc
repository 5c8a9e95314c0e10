// Files as users give them and get them.
#include "base/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace eccl {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

class TextFile : public test::TemporaryFolder {
 protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    path_ = folder_ + "file";
  }
  void expectFiles(const std::vector<std::string>& names) const {
    EXPECT_THAT(filesLeft(), UnorderedElementsAreArray(names));
  }
  /// Why something cannot be written there.
  static std::string failure(const std::string& path) {
    const Status status = writeTextFile(path, "text", "the text");
    EXPECT_EQ(status.code(), Code::system) << path;
    return status.message();
  }
  std::string path_;
};

TEST_F(TextFile, WhatIsWrittenIsRead) {
  for (const std::string& text : {std::string("line\n"), std::string(), std::string("\0\n", 2),
                                  std::string(300000, 'x'), std::string("shorter")}) {
    const Status written = writeTextFile(path_, text, "the text");
    ASSERT_TRUE(written.ok()) << written.message();
    const Result<std::string> read = readTextFile(path_, "the text");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, text);
    expectFiles({"file"});
  }
  EXPECT_EQ(fs::status(path_).permissions() & fs::perms::owner_all,
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(TextFile, WhoReadsMeanwhileReadsTheOldTextToItsEnd) {
  ASSERT_TRUE(writeTextFile(path_, "old text", "the text").ok());
  std::ifstream reader(path_);
  std::string word;
  reader >> word;
  ASSERT_TRUE(writeTextFile(path_, "new", "the text").ok());
  reader >> word;
  EXPECT_EQ(word, "text");
  EXPECT_EQ(*readTextFile(path_, "the text"), "new");
}

TEST_F(TextFile, ALinkStaysAndWhatItLeadsToIsWritten) {
  std::ofstream(path_) << "before";
  fs::create_symlink("file", folder_ + "link");
  for (const char* text : {"first", "second"}) {
    ASSERT_TRUE(writeTextFile(folder_ + "link", text, "the text").ok());
    EXPECT_TRUE(fs::is_symlink(folder_ + "link"));
    EXPECT_EQ(*readTextFile(path_, "the text"), text);
  }
  expectFiles({"file", "link"});
}

TEST_F(TextFile, WhatIsNoFileIsWrittenToAndStays) {
  ASSERT_TRUE(writeTextFile("/dev/null", "text", "the text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  EXPECT_THAT(failure("/dev/full"), HasSubstr("the text /dev/full cannot be written: No space left"));
  EXPECT_THAT(failure(folder_), HasSubstr("Is a directory"));
}

TEST_F(TextFile, ErrorsSayFileAndReason) {
  EXPECT_EQ(failure(folder_ + "none/file"),
            "the text " + folder_ + "none/file cannot be written: No such file or directory");
  ASSERT_TRUE(writeTextFile(path_, "text", "the text").ok());
  EXPECT_THAT(failure(path_ + "/below"), AllOf(HasSubstr(path_), HasSubstr("Not a directory")));
  expectFiles({"file"});
  for (const std::string& path : {folder_ + "none", folder_}) {
    const Status status = readTextFile(path, "the text").status();
    EXPECT_EQ(status.code(), Code::system);
    EXPECT_THAT(status.message(), HasSubstr("the text " + path + " cannot be"));
  }
}

TEST_F(TextFile, ReadingHasItsLimits) {
  ASSERT_TRUE(writeTextFile(path_, std::string(kLongestTextFile, 'x'), "the text").ok());
  EXPECT_EQ(readTextFile(path_, "the text")->size(), kLongestTextFile);
  ASSERT_TRUE(writeTextFile(path_, std::string(kLongestTextFile + 1, 'x'), "the text").ok());
  const Status status = readTextFile(path_, "the text").status();
  EXPECT_EQ(status.code(), Code::invalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("is longer than 16777216 bytes"));
  for (size_t most : {size_t{0}, size_t{1}, size_t{1} << 16, kLongestTextFile})
    EXPECT_EQ(readBeginning(path_, "the text", most)->size(), most);
  EXPECT_EQ(readBeginning(path_, "the text", SIZE_MAX)->size(), kLongestTextFile + 1);
}

}  // namespace
}  // namespace eccl
