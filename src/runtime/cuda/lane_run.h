// A call that lanes make: what its kernel uses, and how far it is.
#pragma once

#include "runtime/cuda/lane_executor.h"

namespace eccl::runtime::cuda {

/// What a call's kernel uses. A captured call's belongs to its graph.
struct LaneExecutor::Used final : OfGraph {
  std::shared_ptr<DevicePlan> plan;
  std::shared_ptr<RankState> kept;
  ReportPlace report;

  ~Used() override {
    if (report.host != nullptr) kept->neighbours->end(report);
  }
};

struct LaneExecutor::Run final : WorkState {
  std::shared_ptr<Used> used;
  uint64_t progress = 0;  // of the report: as it was last looked at
};

}  // namespace eccl::runtime::cuda
