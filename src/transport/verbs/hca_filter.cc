#include "transport/verbs/hca_filter.h"

#include <charconv>

#include "base/tokens.h"

namespace eccl::transport::verbs {

HcaFilter::HcaFilter(std::string_view text) {
  const auto drop = [&text](char first) {
    if (text.empty() || text.front() != first) return false;
    text.remove_prefix(1);
    return true;
  };
  excludes_ = drop('^');
  whole_ = drop('=');
  for (const std::string& item : itemsOf(std::string(text))) {
    const size_t colon = item.find(':');
    Entry entry{item.substr(0, colon), kAny};
    if (colon != item.npos) {
      const char* const end = item.data() + item.size();
      const auto [stop, error] = std::from_chars(item.data() + colon + 1, end, entry.port);
      if (error != std::errc() || stop != end || entry.port < 0) {
        senseless_.push_back(item);
        continue;
      }
    }
    entries_.push_back(std::move(entry));
  }
}

bool HcaFilter::allows(std::string_view device, int port) const {
  if (entries_.empty() && senseless_.empty()) return true;
  for (const Entry& entry : entries_) {
    const bool named = whole_ ? device == entry.name : device.substr(0, entry.name.size()) == entry.name;
    if (named && (entry.port == kAny || entry.port == port)) return !excludes_;
  }
  return excludes_;
}

}  // namespace eccl::transport::verbs
