#include "common/number.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tools/common/number.h"

namespace eccl::perf {
namespace {

using tools::parseInteger;
using tools::parseMask;
using tools::parseSize;

TEST(Number, SizesAreBinaryAndWhole) {
  const struct {
    const char* text;
    size_t bytes;
  } good[] = {{"0", 0},
              {"8", 8},
              {"1.5K", 1536},
              {"32M", 32u << 20},
              {"2g", 2ull << 30},
              {"64MiB", 64u << 20},
              {"64MB", 64u << 20},
              {"1T", 1ull << 40},
              {"4 K", 4096}};
  for (const auto& c : good) {
    size_t bytes = 1;
    EXPECT_TRUE(parseSize(c.text, &bytes)) << c.text;
    EXPECT_EQ(bytes, c.bytes) << c.text;
  }
  for (const char* text : {"", "M", "-1", "4X", "4KX", "nan", "inf", "9999999999T", "8 8"}) {
    size_t bytes = 77;
    EXPECT_FALSE(parseSize(text, &bytes)) << text;
    EXPECT_EQ(bytes, 77u) << text;
  }
}

TEST(Number, IntegersStayInTheirRange) {
  long long value = 0;
  EXPECT_TRUE(parseInteger("0x10", 0, 100, &value));
  EXPECT_EQ(value, 16);
  for (const char* text : {"", "1x", "101", "-1", "99999999999999999999"})
    EXPECT_FALSE(parseInteger(text, 0, 100, &value)) << text;
  EXPECT_TRUE(parseMask(" 0b101", &value));
  EXPECT_EQ(value, 5);
  EXPECT_TRUE(parseMask("0x7", &value));
  EXPECT_EQ(value, 7);
  EXPECT_FALSE(parseMask("0b", &value));
  EXPECT_FALSE(parseMask("0b12", &value));
}

// Two decimals, one, none, an exponent: whatever is the first to fit.
TEST(Number, ValuesAreFittedToTheirColumn) {
  const struct {
    double value;
    int width;
    const char* text;
  } cases[] = {
      {0, 7, "   0.00"},        {1.005, 7, "   1.00"},    {12.345, 7, "  12.35"},   {9999.99, 7, "9999.99"},
      {9999.999, 7, "10000.0"}, {12345.67, 7, "12345.7"}, {99999.96, 7, " 100000"}, {1234567, 7, "1234567"},
      {12345678, 7, "1.2e+07"}, {0.004, 6, "  0.00"},     {999.99, 6, "999.99"},    {1000.4, 6, "1000.4"},
      {12345.6, 6, " 12346"},   {1234567, 6, " 1e+06"},   {-12.5, 6, "-12.50"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(fitted(c.value, c.width), c.text) << c.value;
    EXPECT_EQ(static_cast<int>(fitted(c.value, c.width).size()), c.width) << c.value;
  }
  EXPECT_EQ(fitted(std::nan(""), 7), "    nan");
}

TEST(Number, MemoryHasThreeDigits) {
  EXPECT_EQ(memoryText(0), "0.00 B");
  EXPECT_EQ(memoryText(512), "512 B");
  EXPECT_EQ(memoryText(1536), "1.50 KB");
  EXPECT_EQ(memoryText(int64_t{50} << 20), "50.0 MB");
  EXPECT_EQ(memoryText(int64_t{3} << 30), "3.00 GB");
  EXPECT_EQ(memoryText(int64_t{-1536}), "-1.50 KB");
}

}  // namespace
}  // namespace eccl::perf
