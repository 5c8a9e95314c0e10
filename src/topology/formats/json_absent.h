// The error of all JSON functions in a build without nlohmann-json.
#pragma once

#include "base/status.h"

namespace eccl::topology {

inline Status jsonAbsent() {
  return Status::error(
      Code::invalidUsage,
      "this build of ECCL reads and writes no JSON: install nlohmann-json3-dev and build it again");
}

}  // namespace eccl::topology
