#include "topology/formats/nccl_xml_comment.h"

namespace eccl::topology {
namespace {

constexpr std::string_view kHead = " unread: ", kTail = " ";
// What must not stand in a comment, or would be read as something else, and the letter it becomes behind '\'.
constexpr std::string_view kPlain("\\\n\r\0-", 5), kEscaped("\\nr0-", 5);

}  // namespace

std::string commentOf(std::string_view sentence) {
  std::string comment(kHead);
  for (const char c : sentence) {
    const size_t at = kPlain.find(c);
    const bool harmless = at == kPlain.npos || (c == '-' && comment.back() != '-');  // two end a comment
    if (!harmless) comment += '\\';
    comment += harmless ? c : kEscaped[at];
  }
  return comment + std::string(kTail);
}

std::optional<std::string> unreadFrom(std::string_view comment) {
  if (comment.size() < kHead.size() + kTail.size() || comment.substr(0, kHead.size()) != kHead ||
      comment.substr(comment.size() - kTail.size()) != kTail) {
    return std::nullopt;
  }
  comment = comment.substr(kHead.size(), comment.size() - kHead.size() - kTail.size());
  std::string sentence;
  for (size_t i = 0; i < comment.size(); ++i) {
    const size_t at =
        comment[i] == '\\' && i + 1 < comment.size() ? kEscaped.find(comment[i + 1]) : kEscaped.npos;
    if (at != kEscaped.npos) ++i;
    sentence += at != kEscaped.npos ? kPlain[at] : comment[i];
  }
  return sentence;
}

}  // namespace eccl::topology
