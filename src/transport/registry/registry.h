// Which transports there are, and which of them a communicator may use.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/settings.h"
#include "transport/core/transport.h"

namespace eccl::transport {

/// All that there are, by priority.
std::span<const TransportEntry* const> knownTransports();

/// The setting that forbids it ("ECCL_SHM_DISABLE=1"); empty if none does.
std::string forbiddenBy(const TransportEntry& entry, const Settings& settings);

/// Whether ranks may use the transport of this name.
bool allows(const Settings& settings, std::string_view name);

/// What the settings say: ECCL_TRANSPORT, a comma list of names, and each transport's own switch. A name that
/// no transport has is an error that lists those that exist. Any thread.
Result<TransportChoice> chooseTransports(const Settings& settings);

}  // namespace eccl::transport
