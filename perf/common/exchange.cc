#include "common/exchange.h"

#include <algorithm>

namespace eccl::perf {

void Exchange::connect(ecclComm_t side, int procs) {
  side_ = side;
  procs_ = procs;
}

// contribute and take run under the lock, in every thread; conclude in the last one to arrive, also under the
// lock: the others could do nothing but wait for its result anyway.
Outcome Exchange::meet(const std::function<void(Slot&, bool)>& contribute,
                       const std::function<Outcome(Slot&)>& conclude,
                       const std::function<void(const Slot&)>& take) {
  std::unique_lock<std::mutex> lock(mutex_);
  const Outcome interrupted = Outcome::error(Exit::internal, "the run was ended by another thread's error");
  if (woken_) return interrupted;
  const uint64_t meeting = meeting_;
  Slot& slot = slots_[meeting % 2];
  contribute(slot, arrived_ == 0);
  if (++arrived_ == threads_) {
    slot.outcome = procs_ > 1 ? conclude(slot) : Outcome();
    arrived_ = 0;
    ++meeting_;
    arrivedAll_.notify_all();
  } else {
    arrivedAll_.wait(lock, [&] { return meeting_ != meeting || woken_; });
    if (meeting_ == meeting) return interrupted;
  }
  if (slot.outcome.ok()) take(slot);
  return slot.outcome;
}

// A NULL stream on a blocking communicator: complete when the call returns.
Outcome Exchange::reduce(void* value, ecclDataType_t type, ecclRedOp_t op) {
  return Outcome::library(ecclAllReduce(value, value, 1, type, op, side_, nullptr), side_,
                          "ecclAllReduce of the tool's own numbers");
}

Outcome Exchange::barrier() {
  return meet([](Slot&, bool) {},
              [&](Slot&) {
                return Outcome::library(ecclBarrier(side_, nullptr), side_, "ecclBarrier between processes");
              },
              [](const Slot&) {});
}

Outcome Exchange::average(int thread, Average how, double* value) {
  return meet(
      [&](Slot& slot, bool first) {
        if (how == Average::firstRank) {
          if (thread == 0) slot.value = *value;
        } else if (first) {
          slot.value = *value;
        } else if (how == Average::mean) {
          slot.value += *value;
        } else {
          slot.value = how == Average::least ? std::min(slot.value, *value) : std::max(slot.value, *value);
        }
      },
      [&](Slot& slot) {
        if (how == Average::firstRank) return Outcome();
        const ecclRedOp_t op = how == Average::mean ? ecclSum : how == Average::least ? ecclMin : ecclMax;
        return reduce(&slot.value, ecclFloat64, op);
      },
      [&](const Slot& slot) { *value = how == Average::mean ? slot.value / (threads_ * procs_) : slot.value; });
}

Outcome Exchange::sum(int64_t* value) {
  return meet([&](Slot& slot, bool first) { slot.sum = first ? *value : slot.sum + *value; },
              [&](Slot& slot) { return reduce(&slot.sum, ecclInt64, ecclSum); },
              [&](const Slot& slot) { *value = slot.sum; });
}

Outcome Exchange::greatestRows(const std::vector<double>& values, std::vector<double>* rows) {
  return meet(
      [&](Slot& slot, bool first) {
        if (first) slot.values = values;
        for (size_t i = 0; i < values.size(); ++i) slot.values[i] = std::max(slot.values[i], values[i]);
        slot.rows = slot.values;
      },
      [&](Slot& slot) {
        slot.rows.resize(slot.values.size() * static_cast<size_t>(procs_));
        return gather(slot.values.data(), slot.values.size() * sizeof(double), slot.rows.data());
      },
      [&](const Slot& slot) { *rows = slot.rows; });
}

Outcome Exchange::gather(const void* mine, size_t bytes, void* all) {
  return Outcome::library(ecclAllGather(mine, all, bytes, ecclUint8, side_, nullptr), side_,
                          "ecclAllGather of the tool's own numbers");
}

void Exchange::wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  woken_ = true;
  arrivedAll_.notify_all();
}

}  // namespace eccl::perf
