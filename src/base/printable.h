// Text from files, peers and the environment, as it may go to a terminal or into a log.
#pragma once

#include <string>
#include <string_view>

namespace eccl {

/// `text` with every byte written as \x1b that a terminal would act on or cannot show: control characters
/// (those of C0 and C1, and DEL) and what is no UTF-8. Characters in `kept` stay. Text without any is returned
/// as it is, and so is the result of this function.
std::string printable(std::string_view text, std::string_view kept = "");

/// `text`, printable, its first 60 bytes as shown, in double quotes: as it can stand in a sentence. It has no
/// name that std has too: std::string_view as an argument would find that one.
std::string inQuotes(std::string_view text);

}  // namespace eccl
