// Text from files, peers and the environment, made safe for a terminal or a log. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace eccl {

/// `text` with \x1b and the like in place of every byte that a terminal would act on or cannot show: control
/// characters (those of C0 and C1, and DEL) and what is not UTF-8. Characters in `kept` stay. Text without
/// any such byte is returned as it is, and so is the result of this function.
std::string printable(std::string_view text, std::string_view kept = "");

/// `text` made printable, in double quotes, to stand in a sentence. At most 60 bytes are shown, then "...".
/// The name must not be one that std has too: std::string_view as an argument would find that one.
std::string inQuotes(std::string_view text);

/// `text` if it has at most `most` bytes, else its first and last ones with "~" between: names that are alike
/// differ at the end. `most` is 3 or more.
std::string shortened(const std::string& text, size_t most);

}  // namespace eccl
