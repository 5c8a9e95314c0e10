#include "base/in_common.h"

#include <gtest/gtest.h>

#include <string>

namespace eccl {
namespace {

TEST(InCommon, WhatOneHasAddedOthersFindForAsLongAsAnybodyHasIt) {
  InCommon<std::string> names;
  const auto is = [](const char* wanted) { return [=](const std::string& each) { return each == wanted; }; };
  EXPECT_EQ(names.find(is("a")), nullptr);
  auto mine = names.add("a");
  auto other = names.add("b");
  EXPECT_EQ(names.find(is("a")), mine);
  EXPECT_EQ(names.find(is("b")), other);
  mine.reset();
  EXPECT_EQ(names.find(is("a")), nullptr);
  EXPECT_EQ(names.find(is("b")), other);
}

}  // namespace
}  // namespace eccl
