// Where this process's ranks are, as the cost model asks (algorithms/placement.h).
#pragma once

#include <string>
#include <string_view>

#include "algorithms/placement.h"
#include "base/settings.h"
#include "base/status.h"

namespace eccl {

/// Of this process, under its settings: what it may not share with others it does not. Never fails: what cannot
/// be read counts as shared with nobody. Any thread.
Seat localSeat(const Settings& settings);

/// As bytes, for other ranks.
std::string encode(const Seat& seat);
/// Bounded; for bytes from outside. Errors (remote) say what is wrong.
Result<Seat> decodeSeat(std::string_view bytes);

}  // namespace eccl
