// One element of NCCL's XML while it is read: its attributes, each asked for once, and errors that name its
// line. Internal to the reader; needs pugixml. One thread.
#pragma once

#include <map>
#include <optional>
#include <pugixml.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/status.h"
#include "topology/formats/nccl_xml_values.h"

namespace eccl::topology {

/// The text that is read, and notes of what was not kept. Owner: the reader; it outlives its elements.
class XmlSource {
 public:
  XmlSource(std::string_view text, const std::string& name);

  /// "<name>:<line>: <sentence>", invalidArgument.
  Status error(int line, const std::string& sentence) const;
  int lineOf(const pugi::xml_node& node) const { return lineAt(node.offset_debug()); }
  int lineAt(ptrdiff_t offset) const;

  /// Notes for Host::unread that `what` was not kept or not understood. Repetitions of `what` are counted,
  /// not repeated. `odd`: the user should hear of it, as the text may mean something else than what was
  /// taken.
  void note(int line, const std::string& what, bool odd = false);
  /// The notes as sentences, in the order of the text.
  std::vector<std::string> notes(bool oddOnly = false) const;

 private:
  struct Note {
    int line = 0, count = 0;
    bool odd = false;
  };
  const std::string& name_;
  std::vector<size_t> lineStarts_;
  std::map<std::string, Note> notes_;
  int notesLeftOut_ = 0;
};

/// An element under the reader's eye. What NCCL accepts is accepted: a malformed value is noted, and taken as
/// unknown or as NCCL takes it.
class XmlElement {
 public:
  /// Notes attributes beyond the 64 that an element may have, and the second of one name.
  XmlElement(XmlSource& source, const pugi::xml_node& node);
  XmlElement(const XmlElement&) = delete;
  /// Notes every attribute that nobody asked for.
  ~XmlElement();

  int line() const { return line_; }
  /// "<pci> 0000:3b:00.0 <sentence>" with its line.
  Status error(const std::string& sentence) const;
  void note(const std::string& what) const { source_.note(line_, what); }
  void odd(const std::string& what) const { source_.note(line_, what, true); }
  /// Notes that an attribute is not what is expected, and what it is taken for: "for 1", "as unknown".
  void misread(const char* key, const std::string& value, const std::string& expected,
               const std::string& taken) const;

  /// The attribute, or nothing.
  std::optional<std::string> text(const char* key);
  /// The attribute as `read` understands it; unchanged if it is absent, or misread. `expected` ends the
  /// sentence
  /// "... is not".
  template <class Value, class Read>
  void value(const char* key, const char* expected, Read read, std::optional<Value>& result) {
    const std::optional<std::string> found = text(key);
    if (!found) return;
    if (const std::optional<Value> value = read(*found))
      result = *value;
    else
      misread(key, *found, expected, "as unknown");
  }
  /// A whole number from `least` to `most`; of a text that only begins with one, that one, as NCCL takes it.
  template <class Number>
  void number(const char* key, Number least, Number most, std::optional<Number>& result) {
    const std::optional<std::string> found = text(key);
    if (!found) return;
    const std::optional<Number> whole = wholeNumber<Number>(*found);
    const std::optional<int64_t> leading = whole ? std::nullopt : leadingNumber(*found);
    bool known = whole.has_value() || (leading && std::in_range<Number>(*leading));
    const Number number = whole ? *whole : known ? static_cast<Number>(*leading) : least;
    known = known && number >= least && number <= most;
    if (!whole || !known)
      misread(key, *found, "a whole number from " + std::to_string(least) + " to " + std::to_string(most),
              known ? "for " + std::to_string(number) : "as unknown");
    if (known) result = number;
  }
  /// 0 or 1; NCCL reads other numbers as 1.
  void flag(const char* key, std::optional<bool>& result);

 private:
  XmlSource& source_;
  std::string tag_, who_;
  int line_;
  std::vector<std::pair<std::string, std::string>> attributes_;
  std::vector<bool> asked_;
};

}  // namespace eccl::topology
