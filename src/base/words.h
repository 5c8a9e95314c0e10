// Words and numbers in lines of text, for the files of this layer.
#pragma once

#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "base/printable.h"
#include "base/status.h"

namespace eccl {

/// Takes the next word off a line, empty if there is none.
inline std::string_view nextWord(std::string_view& line) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t from = line.find_first_not_of(kBlanks);
  line.remove_prefix(from == std::string_view::npos ? line.size() : from);
  const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
  line.remove_prefix(word.size());
  return word;
}

/// Takes the next line off a text, without what follows a #.
inline std::string_view nextLine(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(line.size() < text.size() ? line.size() + 1 : text.size());
  return line.substr(0, line.find('#'));
}

/// False unless the whole word is a number in the range.
template <class Number>
bool readNumber(std::string_view word, Number least, Number most, Number& value) {
  const auto read = std::from_chars(word.data(), word.data() + word.size(), value);
  return read.ec == std::errc() && read.ptr == word.data() + word.size() && value >= least && value <= most;
}

/// The shortest text that is read as the same number.
inline std::string written(double value) {
  char number[32];
  return {number, std::to_chars(number, number + sizeof number, value).ptr};
}

/// The error (invalidArgument) of a line, by its number in the text called `name`.
inline Status wrongLine(const std::string& name, int number, std::string_view line, const char* wrong) {
  return Status::error(Code::invalidArgument, "%s:%d: %s: %s", name.c_str(), number, inQuotes(line).c_str(),
                       wrong);
}

}  // namespace eccl
