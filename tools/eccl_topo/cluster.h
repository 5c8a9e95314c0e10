// The commands of eccl_topo on a cluster. As commands.h says, each prints to the standard output and returns
// the exit code.
#pragma once

#include "commands.h"
#include "topology/model/cluster.h"

namespace eccl::topo {

/// The cluster in a text. Host files that it names are looked for beside `path`.
Result<topology::Cluster> parseCluster(const std::string& content, const std::string& path);

/// Generates a cluster of that host, by options.clos.
int generate(const topology::Host& host, const Options& options);
int show(const topology::Cluster& cluster, const Options& options);
int paths(const topology::Cluster& cluster, const Options& options);
int search(const topology::Cluster& cluster, const Options& options);
int dump(const topology::Cluster& cluster, const Options& options);
int draw(const topology::Cluster& cluster, const Options& options);
/// Compares two clusters. Hosts are matched by their names, or in order if the two have none in common.
int diff(const topology::Cluster& cluster, const topology::Cluster& other, const Options& options);

/// The host of a cluster that options.host names, or numbers if none has that name.
topology::Host hostOf(const topology::Cluster& cluster, const Options& options);

/// The SVG that draw() writes.
std::string drawing(const topology::Cluster& cluster);

/// The name of the device that a rank uses, with its host's: "node3/0000:1b:00.0".
std::string nameOf(const topology::Cluster& cluster, const topology::RankPlace& place);

}  // namespace eccl::topo
