// The commands of eccl_topo on a cluster. Each prints to the standard output and returns the exit code.
#pragma once

#include "commands.h"
#include "topology/cluster.h"

namespace eccl::topo {

/// Of a text that is a cluster; host files that it names are looked for beside `path`.
Result<Cluster> parseCluster(const std::string& content, const std::string& path);

/// Generates one, of that host by options.clos.
int generate(const Host& host, const Options& options);
int show(const Cluster& cluster, const Options& options);
int paths(const Cluster& cluster, const Options& options);
int search(const Cluster& cluster, const Options& options);
int dump(const Cluster& cluster, const Options& options);
int draw(const Cluster& cluster, const Options& options);
/// Hosts are matched by their names, or in order if the two have none in common.
int diff(const Cluster& cluster, const Cluster& other, const Options& options);

/// The one that options.host names, or numbers if none is called so.
Host hostOf(const Cluster& cluster, const Options& options);

/// The SVG that draw() writes.
std::string drawing(const Cluster& cluster);

/// The name of the device that a rank uses, with its host's: "node3/0000:1b:00.0".
std::string nameOf(const Cluster& cluster, const RankPlace& place);

}  // namespace eccl::topo
