// Where this process's ranks are, as the cost model asks (algorithms/cost/placement.h).
#pragma once

#include <string>
#include <string_view>

#include "algorithms/cost/placement.h"
#include "base/settings.h"
#include "base/status.h"

namespace eccl::runtime {

/// Of this process, under its settings: what it may not share with others it does not. Never fails: what cannot
/// be read counts as shared with nobody. Any thread.
algorithms::Seat localSeat(const Settings& settings);

/// As bytes, for other ranks.
std::string encode(const algorithms::Seat& seat);
/// Bounded; for bytes from outside. Errors (remote) say what is wrong.
Result<algorithms::Seat> decodeSeat(std::string_view bytes);

}  // namespace eccl::runtime
