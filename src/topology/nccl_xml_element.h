// One element of NCCL's XML while it is read: its attributes, each asked for once, and errors that name its
// line. Not for use outside the reader; needs pugixml.
#pragma once

#include <map>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/nccl_xml_values.h"

namespace eccl {

/// The text that is read, and what of it was not kept. Lives as long as its elements.
class XmlSource {
 public:
  XmlSource(std::string_view text, const std::string& name);

  /// "<name>:<line>: <sentence>", invalidArgument.
  Status error(int line, const std::string& sentence) const;
  int lineOf(const pugi::xml_node& node) const { return lineAt(node.offset_debug()); }
  int lineAt(ptrdiff_t offset) const;

  /// Notes that `what` was not kept, for Host::unread. Repetitions of `what` are counted, not repeated.
  void note(int line, const std::string& what);
  /// The notes as sentences, in the order of the text.
  std::vector<std::string> notes() const;

 private:
  struct Note {
    int line = 0, count = 0;
  };
  const std::string& name_;
  std::vector<size_t> lineStarts_;
  std::map<std::string, Note> notes_;
  int notesLeftOut_ = 0;
};

/// Text as it can stand in a sentence: short, without control characters.
std::string quoted(std::string_view text);

class XmlElement {
 public:
  /// error() is set for more attributes than an element has, or two of one name.
  XmlElement(XmlSource& source, const pugi::xml_node& node);
  XmlElement(const XmlElement&) = delete;
  /// Notes every attribute that nobody asked for.
  ~XmlElement();

  Status status() const { return status_; }
  int line() const { return line_; }
  /// "<pci> 0000:3b:00.0 <sentence>" with its line.
  Status error(const std::string& sentence) const;
  void note(const std::string& what) const { source_.note(line_, what); }

  /// The attribute, or nothing.
  std::optional<std::string> text(const char* key);
  /// The attribute as `read` understands it: nothing if it is absent, an error if `read` gives nothing.
  /// `expected` ends the sentence "... is not".
  template <class Value, class Read>
  Status value(const char* key, const char* expected, Read read, std::optional<Value>& result) {
    const std::optional<std::string> found = text(key);
    if (!found) return {};
    const std::optional<Value> value = read(*found);
    if (!value) return error(format("%s=%s is not %s", key, quoted(*found).c_str(), expected));
    result = *value;
    return {};
  }
  /// A whole number from `least` to `most`.
  template <class Number>
  Status number(const char* key, Number least, Number most, std::optional<Number>& result) {
    const std::string range = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    return value(
        key, range.c_str(),
        [&](std::string_view text) {
          const std::optional<Number> number = wholeNumber<Number>(text);
          return number && *number >= least && *number <= most ? number : std::nullopt;
        },
        result);
  }
  /// 0 or 1; NCCL reads other numbers as 1.
  Status flag(const char* key, std::optional<bool>& result);

 private:
  XmlSource& source_;
  std::string tag_, who_;
  int line_;
  Status status_;
  std::vector<std::pair<std::string, std::string>> attributes_;
  std::vector<bool> asked_;
};

}  // namespace eccl
