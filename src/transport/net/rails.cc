#include "transport/net/rails.h"

#include <algorithm>

namespace eccl::transport {
namespace {

bool shareAddress(const std::vector<Rail>& some, const std::vector<Rail>& others) {
  return std::any_of(some.begin(), some.end(),
                     [&](const Rail& one) { return findAt(others, one.address) != nullptr; });
}

}  // namespace

std::vector<Rail> railsOf(const std::vector<Interface>& chosen, const InterfaceOptions& options,
                          const std::function<uint16_t(int family)>& portOf) {
  std::vector<Rail> rails;
  for (const Interface& one : chosen) {
    const bool alike = listsNames(options) ? one.address.isLoopback() == chosen[0].address.isLoopback()
                                           : kindOf(one) == kindOf(chosen[0]);
    const bool known =
        std::any_of(rails.begin(), rails.end(), [&](const Rail& rail) { return rail.interface == one.name; });
    if (alike && !known && rails.size() < kMaxRails)
      rails.push_back({one.name, one.address.withPort(portOf(one.address.family())), 0});
  }
  return rails;
}

void weighRails(std::vector<Rail>& rails, const InterfaceOptions& options,
                const std::function<uint32_t(const std::string& interface)>& megabits) {
  constexpr uint32_t kSlow = 8;
  uint32_t fastest = 0;
  for (Rail& rail : rails) fastest = std::max(fastest, rail.megabits = megabits(rail.interface));
  if (listsNames(options)) return;
  std::erase_if(rails, [&](const Rail& rail) { return rail.megabits > 0 && rail.megabits < fastest / kSlow; });
}

std::vector<RailPair> railPairs(const std::vector<Rail>& mine, const std::vector<Rail>& theirs, int socketsEach,
                                bool cross) {
  if (mine.empty() || theirs.empty()) return {};
  const bool oneHost = shareAddress(mine, theirs);
  const size_t here = oneHost ? 1 : mine.size(), there = oneHost ? 1 : theirs.size();
  const size_t rails = cross ? std::max(here, there) : std::min(here, there);
  std::vector<RailPair> pairs;
  for (size_t i = 0; i < std::min(rails * static_cast<size_t>(socketsEach), kMaxSockets); ++i)
    pairs.push_back({static_cast<int>(i % rails % here), static_cast<int>(i % rails % there)});
  return pairs;
}

}  // namespace eccl::transport
