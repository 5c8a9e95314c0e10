// Rank 0's side of an allGather, and the format of its result.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "transport/bootstrap/frame.h"

namespace eccl::transport {

/// Parts, each with its length before it, as one body; and back, for exactly `count` of them. decodeParts()
/// is bounded, for outside bytes; error (remote) says what is wrong. Not logged.
std::string encodeParts(const std::vector<std::string>& parts);
Result<std::vector<std::string>> decodeParts(std::string_view body, size_t count);

/// Collects the parts of all allGathers that are under way. No sockets, no locks; owner and thread: rank 0's
/// Control, in the service thread.
///
/// The methods append to `*out` the frames that settle a gather, which go to all ranks: `parts`, or `noParts`
/// with the reason (kind: the Code).
class GatherRoot {
 public:
  explicit GatherRoot(int nranks) : nranks_(nranks) {}

  /// Takes the part of rank header.origin for gather header.sequence. That rank waits for `limit` from `now`
  /// on; the shortest wait of a gather counts. A part for a gather that has failed is answered by that
  /// failure again.
  void add(Frame&& part, Duration limit, TimePoint now, std::vector<Frame>* out);
  /// Fails the gathers whose time is over, naming the missing ranks.
  void expire(TimePoint now, std::vector<Frame>* out);
  /// No part of `rank` will come any more: fails the gathers that lack it, also those to come. `why` is a
  /// sentence about it.
  void forget(int rank, const std::string& why, std::vector<Frame>* out);
  /// When expire() has something to do; TimePoint::max() if nothing is under way.
  TimePoint nextDeadline() const;

 private:
  struct Pending {
    std::vector<std::string> parts;
    std::vector<bool> have;
    int count = 0;
    size_t bytes = 0;
    Duration limit{};
    TimePoint deadline = TimePoint::max();
  };
  static constexpr size_t kMaxPending = 1024;

  void fail(uint64_t sequence, Code code, std::string why, std::vector<Frame>* out);

  const int nranks_;
  std::map<uint64_t, Pending> pending_;
  std::map<uint64_t, Frame> failed_;   // what to tell latecomers; the newest few
  std::map<int, std::string> absent_;  // ranks that will not send
};

}  // namespace eccl::transport
