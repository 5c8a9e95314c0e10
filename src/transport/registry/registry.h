// Which transports there are, and which of them a communicator may use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/settings.h"
#include "transport/core/transport.h"

namespace eccl::transport {

/// Those that are built in and the modules that have been opened, by priority. Any thread.
std::vector<const TransportEntry*> knownTransports();

/// Opens a module and makes it known. Errors name the file and say what to do; not logged. Any thread.
Status openTransportModule(const std::string& path);

/// The setting that forbids it ("ECCL_SHM_DISABLE=1"); empty if none does.
std::string forbiddenBy(const TransportEntry& entry, const Settings& settings);

/// Whether ranks may use the transport of this name.
bool allows(const Settings& settings, std::string_view name);

/// What the settings say: ECCL_TRANSPORT, a comma list of names, and each transport's own switch. Opens the
/// modules that ECCL_TRANSPORT_MODULES names, and those of the installation that ECCL_TRANSPORT allows. An
/// error if one that is named cannot be had; a name that no transport has is an error that lists those that
/// exist. Modules that nobody named and that cannot be had are left out (logged). Any thread.
Result<TransportChoice> chooseTransports(const Settings& settings);

}  // namespace eccl::transport
