#include "common/number.h"

#include <cmath>

#include "common/names.h"

namespace eccl::perf {

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

std::string fittedRatio(double value, int width) {
  return value == 0 || value >= 0.01 ? fitted(value, width) : formatted("%*.1e", width, value);
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
