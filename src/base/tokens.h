// Lines, tokens, items and numbers of texts. A token is a run of characters without blanks. All functions are
// pure apart from the argument that they say they shorten, so any thread may call them.
//
//   while (!text.empty()) {
//     std::string_view line = nextLine(text);
//     for (std::string_view token = nextToken(line); !token.empty(); token = nextToken(line)) ...
//   }
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/printable.h"
#include "base/status.h"

namespace eccl {

/// Removes the next token from the front of `line` and returns it; empty if there is none.
inline std::string_view nextToken(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t from = line.find_first_not_of(kBlanks);
  line.remove_prefix(from == std::string_view::npos ? line.size() : from);
  const std::string_view token = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(token.size());
  return token;
}

/// The items of a list with commas between them, but for empty ones. Blanks belong to the items.
inline std::vector<std::string> itemsOf(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (!item.empty()) items.emplace_back(item);
    list.remove_prefix(item.size() < list.size() ? item.size() + 1 : list.size());
  }
  return items;
}

/// Removes the next line from the front of `text` and returns it, without its end and without a comment (from
/// # on). An empty line is empty too: only `text` tells whether there are more.
inline std::string_view nextLine(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
  return line.substr(0, line.find('#'));
}

/// Reads `token` into `value`. True if all of it is a number from `least` to `most`; `value` may have changed
/// even if not.
template <class Number>
bool readNumber(std::string_view token, Number least, Number most, Number& value) {
  const auto read = std::from_chars(token.data(), token.data() + token.size(), value);
  return read.ec == std::errc() && read.ptr == token.data() + token.size() && value >= least && value <= most;
}

/// The shortest text that reads back as the same number.
inline std::string written(double value) {
  char number[32];
  return {number, std::to_chars(number, number + sizeof number, value).ptr};
}

/// The error (invalidArgument) for line `number` of the text called `name`: what is `wrong` with `line`.
inline Status wrongLine(const std::string& name, int number, std::string_view line, const char* wrong) {
  return Status::error(Code::invalidArgument, "%s:%d: %s: %s", name.c_str(), number, inQuotes(line).c_str(),
                       wrong);
}

}  // namespace eccl
