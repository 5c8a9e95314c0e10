// The parser of ECCL_ALGO.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "algorithms/selection/select.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto table = eccl::algorithms::parseSelection({reinterpret_cast<const char*>(data), size});
  if (!table.ok()) {
    require(!table.status().message().empty() && table.status().message().size() < 2000);
    return 0;
  }
  // What was understood can be said, and then means the same.
  std::string said;
  for (int c = 0; c < eccl::kCollectives; ++c) {
    const eccl::algorithms::Algorithm* forced = table->forced[static_cast<size_t>(c)];
    if (forced == nullptr) continue;
    const auto collective = static_cast<eccl::Collective>(c);
    require(forced->collective == collective);
    said += std::string(said.empty() ? "" : ",") + eccl::nameOf(collective) + ":" + forced->name;
  }
  auto again = eccl::algorithms::parseSelection(said);
  require(again.ok() && again->forced == table->forced);
  return 0;
}
