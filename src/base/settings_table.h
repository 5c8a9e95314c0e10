// The table behind Settings: one row for each setting. Private to the settings*.cc files. A new setting is a
// member of Settings and a row here; a test derives from it what docs/settings.md has to say.
#pragma once

#include <variant>

#include "base/settings.h"

namespace eccl {

/// Where a value goes. None (monostate): the variable is read elsewhere, always from the environment, because
/// the log is needed before settings are. The row is then only here so that the name is known and not taken
/// for a misspelt one.
using SettingMember = std::variant<std::monostate, std::string Settings::*, double Settings::*,
                                   int64_t Settings::*, bool Settings::*>;

/// What else a text must be. choice: one of `values`, which '|' separates. lines: a multiple of a cache line.
/// words: letters, digits, _-,: and blanks, which do not count.
enum class SettingRule : uint8_t { none, powerOfTwo, lines, words, choice };

/// One setting: what users are told, where its value goes, and what it may be.
struct SettingRow {
  SettingInfo info;
  SettingMember member;
  double least = 0, most = 0;  // of numbers; both are allowed
  SettingRule rule = SettingRule::none;
  bool secret = false;
};

inline constexpr std::string_view kSettingPrefix = "ECCL_";

/// All rows, in the order of the documentation.
std::span<const SettingRow> settingRows();
/// The row of a name, ECCL's or NCCL's spelling with its prefix; nullptr if there is none.
const SettingRow* findSetting(std::string_view name);
/// The value of a setting as it would be written in a file; empty for one that is read elsewhere. A secret is
/// not hidden.
std::string textOf(const Settings& settings, const SettingRow& row);
/// Sets the member that a row names. False if `text` is not allowed; the member's value is then unspecified.
/// An empty text is the default where the default is empty.
bool assign(Settings& settings, const SettingRow& row, std::string_view text);

}  // namespace eccl
