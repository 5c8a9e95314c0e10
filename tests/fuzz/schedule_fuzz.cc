// The schedule text: whatever parses comes back the same from its dump, and is judged in bounded time.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "algorithms/verify/verify.h"
#include "program/text.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto programs = eccl::parse({reinterpret_cast<const char*>(data), size});
  if (!programs.ok()) {
    require(!programs.status().message().empty() && programs.status().message().size() < 300);
    return 0;
  }
  const std::string text = eccl::dumpSchedule(*programs);
  auto again = eccl::parse(text);
  require(again.ok() && *again == *programs && eccl::dumpSchedule(*again) == text);
  // Small bounds, so that both the verdicts and the giving up are seen.
  const eccl::algorithms::VerifyLimits limits = {.moves = 20'000, .pieces = 20'000, .work = 1'000'000};
  for (bool inPlace : {false, true}) {
    eccl::algorithms::Verdict verdict = eccl::algorithms::verify(*programs, inPlace, limits);
    require(verdict.ok == verdict.reason.empty() && !(verdict.ok && verdict.gaveUp));
    require(!verdict.ok || (verdict.minSlots >= 1 && verdict.minSlots <= eccl::algorithms::kMaxSlots));
  }
  return 0;
}
