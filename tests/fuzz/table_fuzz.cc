// The parser of ECCL_TABLE_FILE, which also reads what rank 0 tells the others.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "algorithms/selection/selection_rules.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto rules = eccl::algorithms::parseRules({reinterpret_cast<const char*>(data), size}, "table");
  if (!rules.ok()) {
    require(!rules.status().message().empty() && rules.status().message().size() < 1000);
    return 0;
  }
  const auto again = eccl::algorithms::parseRules(eccl::algorithms::textOf(*rules), "table");
  require(again.ok() && *again == *rules);
  // Whatever a table says, every call has an algorithm of its own collective.
  eccl::algorithms::SelectionTable table;
  table.rules = *rules;
  for (const eccl::algorithms::Algorithm& algorithm : eccl::algorithms::algorithms()) {
    for (size_t bytes : {size_t{0}, size_t{4096}, SIZE_MAX}) {
      const eccl::algorithms::Choice choice = eccl::algorithms::select(algorithm.collective, bytes, 5, table);
      require(choice.algorithm != nullptr && choice.algorithm->collective == algorithm.collective);
    }
  }
  return 0;
}
