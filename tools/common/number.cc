#include "tools/common/number.h"

#include <strings.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace eccl::tools {

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

}  // namespace eccl::tools
