// A Cluster as JSON: what `eccl_topo clos` writes, what people write where probing cannot see the network,
// and what tools read. docs/cluster.schema.json is its schema.
//
// Threads: stateless functions, any thread. They need nlohmann-json; in a build without it they fail with
// invalidUsage and say what to install.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/model/cluster.h"

namespace eccl::topology {

/// The JSON of a valid cluster: one line for each host type, run of hosts, switch, link and run of ranks.
/// Hosts that are wired alike and numbered one by one are one entry with a count, and so are ranks on the
/// same devices of consecutive hosts. Host types are written out, also those that were read from files. What
/// is not known is left out.
Result<std::string> toJson(const Cluster& cluster);

/// Reads the file of a host that a cluster's file refers to.
using HostLoader = std::function<Result<Host>(const std::string& path)>;

/// The cluster in a text; `name` is what errors call the text. The result is valid and equals the one that
/// was written. Linear but for names. Errors (invalidArgument, or the loader's) say where: "<name>:
/// hosts[3].uplinks[0].port: …".
Result<Cluster> parseClusterJson(std::string_view text, const std::string& name, const HostLoader& load);

/// Whether a text is meant to be a cluster rather than a host, by its first lines.
bool looksLikeCluster(std::string_view text);

}  // namespace eccl::topology
