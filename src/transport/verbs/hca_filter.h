// Which ports ECCL_IB_HCA names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace eccl::transport::verbs {

/// NCCL's syntax of NCCL_IB_HCA: [^][=]name[:port],... Names are prefixes, after '=' whole; after '^' those are
/// left out. Empty: every port. A value.
class HcaFilter {
 public:
  explicit HcaFilter(std::string_view text);
  bool allows(std::string_view device, int port) const;
  /// Entries whose port is no number: they match nothing. For messages.
  const std::vector<std::string>& senseless() const { return senseless_; }

 private:
  struct Entry {
    std::string name;
    int port;  // kAny: all
  };
  static constexpr int kAny = -1;
  bool excludes_ = false, whole_ = false;
  std::vector<Entry> entries_;
  std::vector<std::string> senseless_;
};

}  // namespace eccl::transport::verbs
