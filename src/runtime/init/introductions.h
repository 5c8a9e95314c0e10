// What ranks say of themselves when they meet.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "transport/bootstrap/gather.h"
#include "transport/net/endpoint.h"

namespace eccl::runtime {

/// What all ranks of a communicator have said. Constant and equal on all ranks; those of one process have it in
/// common. Any thread.
struct Introductions {
  std::string told;                            ///< the bytes they came in
  std::vector<transport::Endpoint> endpoints;  ///< by rank
  std::vector<std::string> hosts;              ///< by rank: RankHosts::Introduction::text
  std::vector<std::string> devices;            ///< by rank: what Executor::introduce() said
  Status settings;  ///< ok if all ranks have said the same; else names the setting and the ranks
  int unable = -1;  ///< the first rank that cannot take part; -1: all can
  std::string whyUnable;

  /// What one rank says: where it can be reached, the settings that must be the same everywhere
  /// ("NAME=value\n"...), of its host, and of its device, or why it cannot take part.
  static std::string write(const transport::Endpoint& own, const std::string& settings, const std::string& host,
                           const Result<std::string>& device);
  /// What all have said. Bytes of others are bounded and checked. Errors are the same on all ranks and logged:
  /// invalidUsage for another version of ECCL, remote for what cannot be read. `rank` is the reader's, for
  /// messages.
  static Result<std::shared_ptr<const Introductions>> read(const transport::Parts& parts, int rank);
};

}  // namespace eccl::runtime
