// What goes to terminals.
#include "base/printable.h"

#include <gtest/gtest.h>

#include <string>

#include "base/status.h"

namespace eccl {
namespace {

TEST(Printable, OrdinaryTextStays) {
  for (const std::string text : {"", "mlx5_0", "  Shanghai  ", "Größe × 2 → ∞", "\xf0\x9f\x98\x80", "C:\\x"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, WhatATerminalActsOnIsWrittenOut) {
  EXPECT_EQ(printable("\033[2Jx\a\n\t\r\b\x7f"), "\\x1b[2Jx\\x07\\x0a\\x09\\x0d\\x08\\x7f");
  EXPECT_EQ(printable(std::string(1, '\0')), "\\x00");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");  // CSI as one character of C1
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");
}

TEST(Printable, WhatIsNoUtf8IsWrittenOut) {
  EXPECT_EQ(printable("\x9b"), "\\x9b");                                            // CSI in one byte
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");                                   // ESC in too many bytes
  EXPECT_EQ(printable("\xe0\x80\x9b"), "\\xe0\\x80\\x9b");                          // the same in three
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                                   // cut
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");                          // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80\xff"), "\\xf4\\x90\\x80\\x80\\xff");        // beyond the last character
  EXPECT_EQ(printable("\xe2\x82\xac\xe2\x82\033"), "\xe2\x82\xac\\xe2\\x82\\x1b");  // after a good one
}

TEST(Printable, NoByteThatATerminalActsOnPasses) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)}, shown = printable(text);
      EXPECT_EQ(printable(shown), shown);
      for (const char c : shown) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << first;
    }
  }
}

TEST(Printable, LinesStayWhereTheyAreWanted) {
  EXPECT_EQ(printable("one\n\ttwo\033", "\n\t"), "one\n\ttwo\\x1b");
}

TEST(Printable, QuotationsAreShort) {
  EXPECT_EQ(inQuotes("a\033"), "\"a\\x1b\"");
  EXPECT_EQ(inQuotes(std::string(60, 'x')), '"' + std::string(60, 'x') + '"');
  EXPECT_EQ(inQuotes(std::string(61, 'x')), '"' + std::string(60, 'x') + "...\"");
  EXPECT_EQ(inQuotes(std::string(59, 'x') + "€"), '"' + std::string(59, 'x') + "...\"");
  EXPECT_EQ(inQuotes(std::string(61, '\x9d')).size(), 60 + 5U);  // four bytes for each
}

TEST(Printable, MessagesAre) {
  EXPECT_EQ(Status::error(Code::system, "%s\n%s", "\033]0;x\a", "two").message(), "\\x1b]0;x\\x07\ntwo");
  EXPECT_EQ(Status::fromErrno(2, "%s", "\x9b").message(), "\\x9b: No such file or directory");
}

TEST(Shortened, KeepsBothEnds) {
  EXPECT_EQ(shortened("mlx5_0:1", 15), "mlx5_0:1");
  EXPECT_EQ(shortened("rocep1s0f0np0:1", 15), "rocep1s0f0np0:1");
  EXPECT_EQ(shortened("rocex525400c0fe123455:1", 15), "rocex5~123455:1");
  EXPECT_NE(shortened("rocex525400c0fe123455:1", 15), shortened("rocex525400c0fe123455:2", 15));
  EXPECT_EQ(shortened("abcd", 3), "~cd");
}

}  // namespace
}  // namespace eccl
