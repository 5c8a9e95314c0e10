// Files as users give them and get them.
#include "base/text_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
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
    test::TemporaryFolder::SetUp();
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
  EXPECT_EQ(readTextFile(path_, "the text", kLongestTextFile + 1)->size(), kLongestTextFile + 1);
  ASSERT_TRUE(writeTextFile(path_, "four", "the text").ok());
  EXPECT_EQ(*readTextFile(path_, "the text", 4), "four");
  EXPECT_EQ(readTextFile(path_, "the text", 3).status().message(),
            "the text " + path_ + " is longer than 3 bytes");
  EXPECT_EQ(*readTextFile("/dev/null", "the text", 0), "");
}

TEST_F(TextFile, WhatHasNoEndIsReadToTheLimit) {
  const Status status = readTextFile("/dev/zero", "the text").status();
  EXPECT_EQ(status.code(), Code::invalidArgument);
  EXPECT_EQ(status.message(), "the text /dev/zero is longer than 16777216 bytes");
}

TEST_F(TextFile, PipesAreReadToTheirEnd) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  // A writer who takes his time: in pieces, the last when the reader has long waited for it.
  std::thread slow([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const int writer = open(path_.c_str(), O_WRONLY);
    ASSERT_GE(writer, 0);
    for (const char* piece : {"one ", "two ", "three"}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      EXPECT_EQ(write(writer, piece, strlen(piece)), static_cast<ssize_t>(strlen(piece)));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    close(writer);
  });
  EXPECT_EQ(*readTextFile(path_, "the text"), "one two three");
  slow.join();
}

TEST_F(TextFile, APipeThatDoesNotEndIsGivenUp) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  int writer = -1;
  for (const bool written : {false, true}) {
    if (written) {
      ASSERT_GE(writer = open(path_.c_str(), O_RDWR), 0);
      ASSERT_EQ(write(writer, "text", 4), 4);
    }
    const Status status = readTextFile(path_, "the text", kLongestTextFile, 50).status();
    EXPECT_EQ(status.code(), Code::invalidArgument);
    EXPECT_EQ(status.message(), "the text " + path_ + " has not come to its end in 0.05 s: give a file");
  }
  close(writer);
}

}  // namespace
}  // namespace eccl
