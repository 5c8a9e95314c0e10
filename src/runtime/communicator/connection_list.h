// The connections of one rank, with names for what they lead to, and as a text that people and scripts read.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "transport/core/connection_report.h"

namespace eccl::runtime {

/// A value: what one rank says of its connections at one time.
struct ConnectionList {
  std::vector<transport::ConnectionReport> connections;
  std::vector<std::string> hosts;  ///< of each connection's peer
  std::vector<transport::RailReport> rails;
};

/// Of whom a list is, for the text.
struct ConnectionOwner {
  uint64_t communicator = 0;
  std::string name;  // the communicator's; may be empty
  int rank = 0, ranks = 1;
  std::string host;
  int pid = 0;
  double seconds = 0;  // since the communicator was ready
  Status failure;      // why it failed; ok: it has ended in order
};

/// A line for the communicator, each rail, each connection and each socket, in words KEY=VALUE. Each line names
/// the rank, so that those of many ranks can be put together and sorted. docs/links.md explains the words.
std::string textOf(const ConnectionList& list, const ConnectionOwner& owner);

/// Writes that text to `path`.COMMUNICATOR.RANK, or to `path` itself where that is something that is no file,
/// such as /dev/stderr. Error: writeTextFile()'s.
Status writeDump(const std::string& path, const ConnectionList& list, const ConnectionOwner& owner);

}  // namespace eccl::runtime
