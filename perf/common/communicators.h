// The communicators of one process: those under test and the one for the tool's own numbers.
#pragma once

#include <atomic>
#include <vector>

#include "common/names.h"
#include "tools/common/job.h"

namespace eccl::perf {

/// Owns them. One thread, except abort().
class Communicators {
 public:
  explicit Communicators(const tools::Place& place);
  ~Communicators();

  /// Joins all local ranks, in one group, or (parallel) in one group for each thread, at the same time.
  Outcome join(const ecclUniqueId& id, bool parallel);
  /// Collective over all processes: a communicator of the first rank of each.
  Outcome makeSide();
  /// Collective over all processes: the ranks of equal color test among themselves.
  Outcome split(int color);
  /// Finalizes and frees all, local ranks at the same time.
  Outcome destroy();
  /// Any thread, any time: ends every wait. Afterwards calls with these communicators return errors.
  void abort();

  ecclComm_t side() const { return side_; }
  /// The communicator under test of local rank i.
  ecclComm_t test(int i) const { return groups_.empty() ? world_[i] : groups_[i]; }

 private:
  Outcome splitWorld(int (*colorOf)(int local, int color), int color, std::vector<ecclComm_t>* result);

  const tools::Place place_;
  std::vector<ecclComm_t> world_;
  std::vector<ecclComm_t> groups_;  // empty unless split
  ecclComm_t side_ = nullptr;
  std::atomic<bool> ended_{false};
};

}  // namespace eccl::perf
