// One thread's part of the measurement: it drives its ranks through every type, operator, root and size.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "common/collective.h"
#include "common/exchange.h"
#include "common/report.h"
#include "common/watchdog.h"

namespace eccl::perf {

/// A rank as the measurement sees it; the handles and buffers belong to the caller.
struct Member {
  int rank;
  ecclComm_t comm;
  ecclStream_t stream;
  char* send;
  char* receive;
};

/// What all threads of a process share.
struct Session {
  const Options& options;
  const Collective& collective;
  int nranks;  ///< of the communicators under test
  size_t maxBytes;
  Exchange& exchange;
  Watchdog& watchdog;
  const std::atomic<bool>& failed;  ///< some thread of this process has failed: stop
};

struct Totals {
  double busBandwidth = 0;
  int measurements = 0;
  int64_t outOfBounds = 0;  ///< checks that found at least one wrong element
};

/// Every thread of every process runs the same sequence. An error ends only this thread; the caller stops
/// the others.
class Bench {
 public:
  /// `report` is null except in the thread of rank 0.
  Bench(const Session& session, int thread, std::vector<Member> members, Report* report)
      : session_(session),
        options_(session.options),
        thread_(thread),
        members_(std::move(members)),
        report_(report) {}

  Outcome run();
  const Totals& totals() const { return totals_; }

 private:
  using Clock = std::chrono::steady_clock;

  Outcome sweep(const TypeInfo& type, int op, int root);
  Outcome sizes();
  Outcome makeOperators(int op);
  Outcome destroyOperators();
  void setSize(size_t bytes);
  Outcome measureBoth();
  Outcome measure();
  Outcome timeRuns(Measurement* m, std::vector<double>* iterations);
  Outcome timeLoop(double* seconds, double* cpuSeconds, std::vector<double>* iterations);
  Outcome iterate(int iteration);
  Outcome check(int64_t* wrong);
  void fill();
  Outcome reportIterations(const std::vector<double>& iterations);

  void stage(int operation);
  Outcome issue(int operation);
  ecclResult_t call(size_t member, size_t shift) const;
  Outcome drain();
  /// An exchange with the other threads and processes, under the watchdog's eye.
  template <class Exchanging>
  Outcome meet(Exchanging exchanging) {
    session_.watchdog.beginMeeting(thread_);
    const Outcome outcome = exchanging();
    session_.watchdog.end(thread_);
    return outcome;
  }
  Outcome group(ecclResult_t result, const char* what) const;

  Part part(size_t member) const {
    return {members_[member].rank, session_.nranks, root_, shape_.param, type_};
  }
  size_t elementBytes() const { return static_cast<size_t>(type_->bytes); }
  size_t messageBytes() const { return std::max(shape_.send, shape_.receive) * elementBytes(); }
  size_t shiftOf(int operation) const;
  bool staged() const { return inPlace_ && session_.collective.inPlace() == InPlace::staged; }
  char* sendBuffer(size_t member, size_t shift) const;
  char* receiveBuffer(size_t member, size_t shift) const;
  std::string describe() const;

  const Session& session_;
  const Options& options_;
  const int thread_;
  const std::vector<Member> members_;
  Report* const report_;
  Totals totals_;
  uint64_t repetition_ = 0;

  // Of the sweep that goes on.
  const TypeInfo* type_ = nullptr;
  int op_ = 0;
  int root_ = -1;
  std::optional<Generator> generator_;
  std::vector<ecclRedOp_t> operators_;  // one per member: mulsum's scalar differs
  Shape shape_{};
  bool inPlace_ = false;
};

}  // namespace eccl::perf
