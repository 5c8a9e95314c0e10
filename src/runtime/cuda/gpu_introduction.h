// What a rank says of its GPU when the ranks of a communicator meet.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "base/system.h"
#include "runtime/cuda/loans.h"

namespace eccl::runtime::cuda {

/// A value.
struct GpuIntroduction {
  decltype(ProcessIdentity::bootId) boot{};  ///< its host's
  Name process{};
  Uuid gpu{};
  uint32_t multiprocessors = 0;
  Loans::Door doors[std::size(kWaysToLend)];  ///< by way; without a name: it lends nothing so

  Loans::Door& door(LendBy by) { return doors[static_cast<size_t>(by)]; }
  std::string write() const;
  /// Nothing, if the bytes are no introduction, or its GPU has more multiprocessors than any.
  static std::optional<GpuIntroduction> read(std::string_view bytes);
};

}  // namespace eccl::runtime::cuda
