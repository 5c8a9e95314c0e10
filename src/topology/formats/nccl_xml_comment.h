// The sentences of Host::unread in NCCL's XML: comments below <system>, which NCCL skips. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace eccl::topology {

/// The inside of a comment, between "<!--" and "-->", for a sentence. The sentence may be any text.
std::string commentOf(std::string_view sentence);
/// The sentence in such a comment; nothing for any other comment.
std::optional<std::string> unreadFrom(std::string_view comment);

}  // namespace eccl::topology
