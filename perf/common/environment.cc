#include "common/environment.h"

#include <strings.h>

#include <cstdlib>
#include <cstring>

#include "tools/common/number.h"

namespace eccl::perf {

const char* testsVariable(const char* name, const Environment& environment) {
  const char* value = environment((std::string("ECCL_TESTS_") + name).c_str());
  return value != nullptr ? value : environment((std::string("NCCL_TESTS_") + name).c_str());
}

Outcome splitColor(int proc, const Environment& environment, int* color) {
  *color = 0;
  if (const char* mask = testsVariable("SPLIT_MASK", environment)) {
    char* end = nullptr;
    const unsigned long bits = std::strtoul(mask, &end, 16);  // hexadecimal with or without 0x
    if (end == mask || *end != '\0' || bits > INT32_MAX)
      return Outcome::error(Exit::usage, "NCCL_TESTS_SPLIT_MASK takes a hexadecimal mask such as 0x7; got '%s'",
                            mask);
    *color = proc & static_cast<int>(bits);
    return {};
  }
  const char* text = testsVariable("SPLIT", environment);
  if (text == nullptr) return {};
  static constexpr struct {
    const char* word;
    char symbol;
  } operations[] = {{"AND", '&'}, {"OR", '|'}, {"MOD", '%'}, {"DIV", '/'}};
  for (const auto& operation : operations) {
    const size_t length = std::strlen(operation.word);
    const char* operand = *text == operation.symbol                        ? text + 1
                          : strncasecmp(text, operation.word, length) == 0 ? text + length
                                                                           : nullptr;
    long long value;
    if (operand == nullptr || !tools::parseMask(operand, &value)) continue;
    const int v = static_cast<int>(value);
    if (v == 0 && (operation.symbol == '%' || operation.symbol == '/')) break;
    *color = operation.symbol == '&'   ? proc & v
             : operation.symbol == '|' ? proc | v
             : operation.symbol == '%' ? proc % v
                                       : proc / v;
    return {};
  }
  return Outcome::error(
      Exit::usage,
      "NCCL_TESTS_SPLIT takes AND, OR, MOD or DIV (or & | %% /) and a number, such as \"MOD 8\"; got '%s'",
      text);
}

}  // namespace eccl::perf
