// What a rank says of its GPU when the ranks of a communicator meet.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/system.h"
#include "runtime/cuda/loans.h"

namespace eccl::runtime::cuda {

/// A value.
struct GpuIntroduction {
  decltype(ProcessIdentity::bootId) boot{};  ///< its host's
  Loans::Name process{};
  Uuid gpu{};
  uint32_t multiprocessors = 0;
  Loans::Door door;  ///< without a name: it lends nothing

  std::string write() const;
  /// Nothing, if the bytes are no introduction, or its GPU has more multiprocessors than any.
  static std::optional<GpuIntroduction> read(std::string_view bytes);
};

}  // namespace eccl::runtime::cuda
