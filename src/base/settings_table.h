// The table behind Settings. Private to the settings*.cc files.
#pragma once

#include <variant>

#include "base/settings.h"

namespace eccl {

/// Where a value goes. None: the variable is read elsewhere (the log is needed before settings are), always
/// from the environment; here it is only known, so that it is not taken for a misspelt one.
using SettingMember = std::variant<std::monostate, std::string Settings::*, double Settings::*,
                                   int64_t Settings::*, bool Settings::*>;

/// What else a text must be. choice: one of `values`, which '|' parts; lines: a multiple of a cache line;
/// words: letters, digits, _-,: and blanks, which do not count.
enum class SettingRule : uint8_t { none, powerOfTwo, lines, words, choice };

struct SettingRow {
  SettingInfo info;
  SettingMember member;
  double least = 0, most = 0;  // of numbers
  SettingRule rule = SettingRule::none;
  bool secret = false;
};

inline constexpr std::string_view kSettingPrefix = "ECCL_";

std::span<const SettingRow> settingRows();
/// By either spelling; nullptr if there is none.
const SettingRow* findSetting(std::string_view name);
std::string textOf(const Settings& settings, const SettingRow& row);
/// False: `text` is not allowed (and the member's value is unspecified). An empty text is the default where
/// the default is empty.
bool assign(Settings& settings, const SettingRow& row, std::string_view text);

}  // namespace eccl
