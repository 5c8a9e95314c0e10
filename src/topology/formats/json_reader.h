// Reads JSON that came from outside, and says where it is wrong. Internal to the files of src/topology that
// read JSON.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/printable.h"
#include "base/status.h"

namespace eccl::topology {

using Json = nlohmann::ordered_json;

// Identifiers are hexadecimal text: JSON's numbers need not hold 64 bits.
template <class Number>
inline constexpr bool kIdentifier = std::is_same_v<Number, uint32_t> || std::is_same_v<Number, uint64_t>;

/// An object that is read: each member at most once, and none that nobody asked for. The first error stays.
class Reader {
 public:
  Reader(const Json& from, std::string where) : from_(from), where_(std::move(where)) {
    if (!from.is_object()) fail("", "is not an object");
  }

  template <class Value>
  void operator()(const char* name, Value& value) {
    const Json* member = find(name);
    if (member != nullptr && !read(*member, value)) fail(name, "is not " + wantedBy(value));
  }
  /// A member that is an object, if it is there, given to `visit` with a reader of its own.
  template <class Visit>
  void object(const char* name, Visit&& visit) {
    const Json* member = find(name);
    if (member == nullptr) return;
    Reader reader(*member, where_ + name + ".");
    visit(reader);
    keep(reader.end());
  }
  /// An array of objects, each given to `visit` with a reader of its own.
  template <class Visit>
  void objects(const char* name, Visit&& visit) {
    const Json* member = find(name);
    if (member == nullptr) return;
    if (!member->is_array()) return fail(name, "is not an array");
    for (size_t i = 0; i < member->size() && status_.ok(); ++i) {
      Reader reader((*member)[i], format("%s%s[%zu].", where_.c_str(), name, i));
      visit(reader);
      keep(reader.end());
    }
  }
  bool has(const char* name) const { return from_.is_object() && from_.contains(name); }
  bool ok() const { return status_.ok(); }
  void fail(const std::string& name, const std::string& what) {
    std::string place = where_ + name;
    while (!place.empty() && (place.back() == '.' || place.back() == ' ')) place.pop_back();
    keep(Status::error(Code::invalidArgument, "%s %s", place.c_str(), what.c_str()));
  }
  /// Once all members have been asked for.
  Status end() {
    if (status_.ok() && from_.is_object() && asked_.size() < from_.size()) {
      for (const auto& member : from_.items()) {
        if (std::find(asked_.begin(), asked_.end(), member.key()) == asked_.end())
          fail(member.key().substr(0, 40), "is not known");
      }
    }
    return status_;
  }

 private:
  const Json* find(const char* name) {
    if (!from_.is_object()) return nullptr;
    const auto member = from_.find(name);
    if (member == from_.end()) return nullptr;
    asked_.emplace_back(name);
    return &*member;
  }
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  static bool read(const Json& from, std::string& value) {
    if (from.is_string()) value = printable(from.get<std::string>());
    return from.is_string();
  }
  static bool read(const Json& from, bool& value) {
    if (from.is_boolean()) value = from.get<bool>();
    return from.is_boolean();
  }
  static bool read(const Json& from, double& value) {
    if (from.is_number()) value = from.get<double>();
    return from.is_number();
  }
  template <class Number>
  static bool read(const Json& from, Number& value) requires std::is_integral_v<Number> {
    if constexpr (kIdentifier<Number>) {
      const std::string text = from.is_string() ? from.get<std::string>() : "";
      char* end = nullptr;
      errno = 0;
      const uint64_t number = std::strtoull(text.c_str(), &end, 16);
      value = static_cast<Number>(number);
      return text.starts_with("0x") && text.size() > 2 && *end == '\0' && errno == 0 && value == number;
    } else {
      if (!from.is_number_integer() || (from.is_number_unsigned() && from.get<uint64_t>() > INT64_MAX))
        return false;
      const auto number = from.get<int64_t>();
      value = static_cast<Number>(number);
      return value == number;
    }
  }
  template <class Value>
  static bool read(const Json& from, std::optional<Value>& value) {
    return read(from, value.emplace());
  }
  template <class Value>
  static bool read(const Json& from, std::vector<Value>& value) {
    if (!from.is_array()) return false;
    for (const Json& element : from) {
      if (!read(element, value.emplace_back())) return false;
    }
    return true;
  }

  static std::string wantedBy(const std::string&) { return "a text"; }
  static std::string wantedBy(const bool&) { return "true or false"; }
  static std::string wantedBy(const double&) { return "a number"; }
  template <class Number>
  static std::string wantedBy(const Number&) requires std::is_integral_v<Number> {
    return kIdentifier<Number> ? format("hexadecimal text of %zu bits, such as \"0x1a\"", 8 * sizeof(Number))
                               : format("a whole number of %zu bits", 8 * sizeof(Number));
  }
  template <class Value>
  static std::string wantedBy(const std::optional<Value>&) {
    return wantedBy(Value{});
  }
  template <class Value>
  static std::string wantedBy(const std::vector<Value>&) {
    return "an array, each element " + wantedBy(Value{});
  }

  const Json& from_;
  const std::string where_;
  std::vector<std::string> asked_;
  Status status_;
};

/// What a text names, among the names of an enumeration.
template <class Kind, size_t N>
void readKind(Reader& reader, const std::array<const char*, N>& names, Kind& kind) {
  std::string text, known;
  reader("kind", text);
  for (size_t i = 0; i < N; ++i) {
    known += (i > 0 ? ", " : "") + std::string(names[i]);
    if (text == names[i]) {
      kind = static_cast<Kind>(i);
      return;
    }
  }
  reader.fail("kind", "is none of " + known);
}

/// What kind of document it is.
inline void readFormat(Reader& reader, const char* wanted, int wantedVersion) {
  std::string name;
  int version = 0;
  reader("format", name);
  reader("version", version);
  if (name != wanted) reader.fail("format", format("is not \"%s\"", wanted));
  if (version != wantedVersion) reader.fail("version", format("is not %d", wantedVersion));
}

/// Things that a document refers to by their names.
class Names {
 public:
  /// What errors call the things.
  explicit Names(const char* what) : what_(what) {}

  /// Whether the name is new.
  bool add(const std::string& name) { return numbers_.emplace(name, static_cast<int>(numbers_.size())).second; }
  /// The number of the thing, in the order they were added; -1: there is none.
  int find(const std::string& name) const {
    const auto found = numbers_.find(name);
    return found == numbers_.end() ? -1 : found->second;
  }
  /// The same of the thing that a member names.
  void read(Reader& reader, const char* member, int& number, bool needed) const {
    std::string name;
    reader(member, name);
    if (name.empty() && !needed) return;
    number = find(name);
    if (number < 0) reader.fail(member, "is \"" + name.substr(0, 40) + "\", which no " + what_ + " is called");
  }

 private:
  const std::string what_;
  std::unordered_map<std::string, int> numbers_;
};

/// An error says line and column.
inline Result<Json> parseJson(std::string_view text, const std::string& name) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return Status::error(Code::invalidArgument, "%s: %s", name.c_str(), error.what());
  }
}

/// Names come from files and devices: what is not UTF-8 in them is replaced rather than thrown about.
inline std::string textOf(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace eccl::topology
