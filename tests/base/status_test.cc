#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "eccl/eccl.h"

namespace eccl {
namespace {

// The C API hands out Code's values as they are.
static_assert(static_cast<int>(Code::ok) == ecclSuccess);
static_assert(static_cast<int>(Code::device) == ecclUnhandledCudaError);
static_assert(static_cast<int>(Code::system) == ecclSystemError);
static_assert(static_cast<int>(Code::internal) == ecclInternalError);
static_assert(static_cast<int>(Code::invalidArgument) == ecclInvalidArgument);
static_assert(static_cast<int>(Code::invalidUsage) == ecclInvalidUsage);
static_assert(static_cast<int>(Code::remote) == ecclRemoteError);
static_assert(static_cast<int>(Code::inProgress) == ecclInProgress);
static_assert(static_cast<int>(Code::timeout) == ecclTimeout);

TEST(Status, IsOkUnlessMadeAsAnError) {
  const Status ok;
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.message(), "");
  const Status error = Status::error(Code::remote, "rank %d died", 3);
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.code(), Code::remote);
  EXPECT_EQ(error.message(), "rank 3 died");
}

TEST(Status, FromErrnoAddsTheSystemsWords) {
  const Status error = Status::fromErrno(ENOENT, "open(%s)", "/x");
  EXPECT_EQ(error.code(), Code::system);
  EXPECT_EQ(error.message(), "open(/x): No such file or directory");
}

TEST(Status, FormatsTextOfAnyLength) {
  const std::string longText(100000, 'x');
  EXPECT_EQ(format("<%s>", longText.c_str()), "<" + longText + ">");
  EXPECT_EQ(format("%s", ""), "");
}

Result<std::unique_ptr<int>> boxed(int value) {
  if (value < 0) return Status::error(Code::invalidArgument, "%d is negative", value);
  return std::make_unique<int>(value);
}

Result<int> sumOf(int a, int b, int* evaluated) {
  ECCL_ASSIGN(const std::unique_ptr<int> first, boxed(a));
  ++*evaluated;
  ECCL_ASSIGN(const std::unique_ptr<int> second, boxed(b));
  ++*evaluated;
  return *first + *second;
}

TEST(Result, CarriesMoveOnlyValuesAndPassesErrorsOn) {
  int evaluated = 0;
  Result<int> sum = sumOf(2, 3, &evaluated);
  ASSERT_TRUE(sum.ok());
  EXPECT_EQ(*sum, 5);
  EXPECT_EQ(evaluated, 2);
  sum = sumOf(2, -3, &evaluated);
  ASSERT_FALSE(sum.ok());
  EXPECT_EQ(sum.status().message(), "-3 is negative");
  EXPECT_EQ(evaluated, 3) << "what comes after the failure must not run";
}

TEST(Result, TryEvaluatesItsExpressionOnce) {
  int calls = 0;
  auto count = [&](bool fails) -> Status {
    ++calls;
    return fails ? Status::error(Code::internal, "no") : Status();
  };
  auto twice = [&](bool first) -> Status {
    ECCL_TRY(count(first));
    return count(false);
  };
  EXPECT_TRUE(twice(false).ok());
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(twice(true).message(), "no");
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace eccl
