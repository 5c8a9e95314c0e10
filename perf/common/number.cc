#include "common/number.h"

#include <strings.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "common/outcome.h"

namespace eccl::perf {

// nccl-tests ignores what follows the unit; here it must be nothing, B or iB, so that "1Gb,2G" is an error.
bool parseSize(const char* text, size_t* bytes) {
  char* end = nullptr;
  errno = 0;
  const double number = std::strtod(text, &end);
  if (end == text || errno != 0 || !std::isfinite(number) || number < 0) return false;
  while (*end == ' ') ++end;
  double unit = 1;
  static constexpr char letters[] = "KMGT";
  if (const char* letter = *end != '\0' ? std::strchr(letters, *end & ~0x20) : nullptr) {
    unit = std::ldexp(1.0, 10 * static_cast<int>(letter - letters + 1));
    ++end;
    if (strcasecmp(end, "B") != 0 && strcasecmp(end, "iB") != 0 && *end != '\0') return false;
  } else if (*end != '\0') {
    return false;
  }
  if (number * unit >= 0x1p62) return false;
  *bytes = static_cast<size_t>(number * unit);
  return true;
}

bool parseInteger(const char* text, long long min, long long max, long long* value) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text, &end, 0);
  if (end == text || *end != '\0' || errno != 0 || number < min || number > max) return false;
  *value = number;
  return true;
}

bool parseMask(const char* text, long long* value) {
  while (*text == ' ') ++text;
  if (strncasecmp(text, "0b", 2) != 0) return parseInteger(text, 0, INT32_MAX, value);
  char* end = nullptr;
  errno = 0;
  *value = std::strtoll(text + 2, &end, 2);
  return end != text + 2 && *end == '\0' && errno == 0 && *value >= 0 && *value <= INT32_MAX;
}

std::string fitted(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = formatted("%*.*f", width, decimals, value);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  for (int decimals = width >= 7 ? 1 : 0; decimals >= 0; --decimals) {
    std::string text = formatted("%*.*e", width, decimals, value);
    if (static_cast<int>(text.size()) <= width || decimals == 0) return text;
  }
  return {};
}

std::string memoryText(int64_t bytes) {
  static constexpr const char* units[] = {"B", "KB", "MB", "GB"};
  double amount = static_cast<double>(bytes);
  int unit = 0;
  for (; unit < 3 && std::fabs(amount) >= 1024; ++unit) amount /= 1024;
  const int decimals = std::fabs(amount) < 10 ? 2 : std::fabs(amount) < 100 ? 1 : 0;
  return formatted("%.*f %s", decimals, amount, units[unit]);
}

}  // namespace eccl::perf
