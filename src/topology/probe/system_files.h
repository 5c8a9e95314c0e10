// Reads what the kernel tells in files, below the real root or below the root of a captured machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace eccl::topology {

/// The text without blanks and newlines around it.
std::string trimmed(const std::string& text);
/// The first 16 MiB of a file, or nothing and errno.
std::optional<std::string> contentOf(const std::string& path);
/// The names in a folder that begin with `prefix`, sorted. `error` says why it could not be read, and is
/// empty if it could.
std::vector<std::string> entriesOf(const std::string& folder, const std::string& prefix, std::string* error);
/// What follows "key<spaces>:" or "key " at the start of a line of `text`.
std::string fieldOf(const std::string& text, const std::string& key);
/// The CPUs of "0-3,8"; what is no list gives none.
std::vector<int> cpusIn(const std::string& list);
/// The number in a text that is nothing but a whole number, decimal or, after 0x, hexadecimal.
std::optional<int64_t> numberIn(const std::string& text);

/// The files below a root. A value; any thread. Nothing is cached: every call reads.
class SystemFiles {
 public:
  explicit SystemFiles(std::string root) : root_(std::move(root)) {}
  std::string path(const std::string& name) const { return root_ + name; }
  /// The content, trimmed; empty if the file is absent, empty or cannot be read.
  std::string text(const std::string& name) const;
  std::optional<int64_t> number(const std::string& name) const { return numberIn(text(name)); }
  /// The names in a folder, sorted; none if it cannot be read.
  std::vector<std::string> entries(const std::string& folder) const;
  bool exists(const std::string& name) const;
  /// Where a name leads once all links are followed; empty if nowhere.
  std::string resolved(const std::string& name) const;

 private:
  std::string root_;
};

}  // namespace eccl::topology
