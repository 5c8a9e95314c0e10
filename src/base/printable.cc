// What a terminal would act on or cannot show: control characters, and bytes that are not UTF-8.
#include "base/printable.h"

#include <algorithm>

#include "base/status.h"

namespace eccl {
namespace {

/// Bytes of the character that `text` begins with, if it is UTF-8 and no control character; else 0.
size_t shownLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  unsigned character = first & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3fU);
  }
  constexpr unsigned kMin[] = {0, 0, 0xa0, 0x800, 0x10000};  // of two bytes: what is below are controls
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  return character >= kMin[length] && character <= 0x10ffff && !surrogate ? length : 0;
}

/// Takes a character off `text`, as it may be shown.
std::string nextShown(std::string_view* text, std::string_view kept) {
  const size_t shown = kept.find(text->front()) != kept.npos ? 1 : shownLength(*text);
  const std::string result = shown > 0 ? std::string(text->substr(0, shown))
                                       : format("\\x%02x", static_cast<unsigned char>(text->front()));
  text->remove_prefix(std::max<size_t>(shown, 1));
  return result;
}

}  // namespace

std::string printable(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) result += nextShown(&text, kept);
  return result;
}

std::string inQuotes(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string result = "\"";
  while (!text.empty()) {
    const std::string next = nextShown(&text, "");
    if (result.size() + next.size() > kLongest + 1) return result + "...\"";
    result += next;
  }
  return result + '"';
}

std::string shortened(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  const size_t last = most / 2 + 1;
  return text.substr(0, most - 1 - last) + "~" + text.substr(text.size() - last);
}

}  // namespace eccl
