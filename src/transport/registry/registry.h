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

/// The file of the module that brought it; empty if it is built in. Any thread.
std::string moduleFileOf(const TransportEntry& entry);

/// The modules of this installation that cannot be had, each with the reason. Opens all. Any thread.
std::vector<Status> unusableModules();

/// Opens a module and makes it known to all communicators made from now on. Again without effect. Errors
/// (openModule()'s, or invalidUsage for a second transport of one name) name the file and say
/// what to do; not logged. Any thread.
Status openTransportModule(const std::string& path);

/// The setting that forbids a transport, such as "ECCL_SHM_DISABLE=1"; empty if none does.
std::string forbiddenBy(const TransportEntry& entry, const Settings& settings);

/// Whether there is a transport of this name here, and no setting forbids it.
bool allows(const Settings& settings, std::string_view name);

/// Whether this is the transport that connections between hosts try first. Any thread.
bool prefersOverNetwork(const Settings& settings, std::string_view name);

/// The transports that the settings allow, by ECCL_TRANSPORT, a comma list of names, and by each transport's own
/// switch, in the order in which a connection tries them: the nearest first, and of those that reach equally far the
/// first of ECCL_TRANSPORT, or the one of highest priority.
///
/// Opens the modules that ECCL_TRANSPORT_MODULES names, and those of the installation that ECCL_TRANSPORT
/// allows. Error: a module that is named cannot be had, or ECCL_TRANSPORT has a name that no transport has
/// (invalidUsage; the sentence lists those that exist). Not logged. Modules that nobody named and that cannot
/// be had are left out (logged once for each file). Any thread.
Result<TransportChoice> chooseTransports(const Settings& settings);

}  // namespace eccl::transport
