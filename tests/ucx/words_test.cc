// What is said of UCX while a connection is set up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/ucx/ucx_library.h"
#include "transport/ucx/ucx_words.h"

namespace eccl::transport {
namespace {

using ::testing::HasSubstr;

std::string whyNot(const std::string& bytes, UcxVersion version = {1, 13}) {
  SetupData data;
  data.bytes = bytes;
  return readUcx(data, version).status().message();
}
std::string said() {
  SetupData data;
  EXPECT_TRUE(sayUcx({42, "address"}, {1, 13}, &data).ok());
  return data.bytes;
}

TEST(UcxWords, ComeAsTheyWereSaid) {
  SetupData data;
  data.bytes = said();
  const auto words = readUcx(data, {1, 13});
  ASSERT_TRUE(words.ok());
  EXPECT_EQ(words->end, 42u);
  EXPECT_EQ(words->address, "address");
}

TEST(UcxWords, NonsenseIsRefused) {
  EXPECT_THAT(whyNot(""), HasSubstr("makes no sense"));
  EXPECT_THAT(whyNot(std::string(100, 'x')), HasSubstr("makes no sense"));
  for (size_t bytes = 0; bytes < said().size(); ++bytes)
    EXPECT_NE(whyNot(said().substr(0, bytes)), "") << bytes;
  EXPECT_THAT(whyNot(said() + "x"), HasSubstr("has not come whole"));
  EXPECT_THAT(whyNot(said().substr(0, said().size() - 1)), HasSubstr("has not come whole"));
}

TEST(UcxWords, OtherVersionsAreNamed) {
  EXPECT_THAT(whyNot(said(), {1, 14}), HasSubstr("the peer has UCX 1.13, this host 1.14"));
  EXPECT_THAT(whyNot(said(), {2, 13}), HasSubstr("the peer has UCX 1.13, this host 2.13"));
  std::string other = said();
  other[4] = 9;
  EXPECT_THAT(whyNot(other), HasSubstr("the peer's transport 'ucx' is of version 9, this one of 1"));
}

TEST(UcxWords, AnAddressMayBeTooLong) {
  SetupData data;
  EXPECT_TRUE(sayUcx({1, std::string(mostUcxAddress(), 'a')}, {1, 13}, &data).ok());
  EXPECT_EQ(data.bytes.size(), SetupData::kMaxBytes);
  const Status status = sayUcx({1, std::string(mostUcxAddress() + 1, 'a')}, {1, 13}, &data);
  EXPECT_THAT(status.message(), HasSubstr("has 4073 bytes and 4072 can be told: have UCX use fewer devices"));
}

TEST(UcxLibrary, SaysWhatItHasFound) {
  const std::vector<std::string> lines = describeUcx();
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], HasSubstr("UCX 1."));
  EXPECT_THAT(lines[1], HasSubstr("tcp/"));
}

}  // namespace
}  // namespace eccl::transport
