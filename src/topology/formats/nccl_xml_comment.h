// Host::unread in NCCL's XML: comments below <system>, which NCCL skips.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace eccl::topology {

/// The inside of a comment, between "<!--" and "-->", for a sentence of Host::unread. Any text can be in it.
std::string commentOf(std::string_view sentence);
/// The sentence in such a comment; nothing if it is another's.
std::optional<std::string> unreadFrom(std::string_view comment);

}  // namespace eccl::topology
