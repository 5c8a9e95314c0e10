// Rank 0's side of an allGather, and the format of its result.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "transport/bootstrap/frame.h"

namespace eccl::transport {

/// What all ranks have told in an allGather, by rank. A constant value that is kept as it has come, and copies
/// share it: of a thousand ranks that say much alike it is small. Any thread.
class Parts {
 public:
  Parts() = default;
  size_t size() const { return count_; }
  /// Calls `each` with the rank and what it has told, which is valid for the call only, for all in order.
  void visit(const std::function<void(size_t rank, std::string_view part)>& each) const;
  /// All of them, put together anew each time.
  std::vector<std::string> list() const;
  /// The bytes that they came in. Equal bodies and sizes: equal parts.
  const std::string& body() const { return *body_; }

 private:
  friend Result<Parts> decodeParts(std::string_view body, size_t count);
  Parts(std::string_view body, size_t count)
      : body_(std::make_shared<const std::string>(body)), count_(count) {}

  std::shared_ptr<const std::string> body_ = std::make_shared<const std::string>();
  size_t count_ = 0;
};

/// Parts as one body; and back, for exactly `count` of them. As ranks say much alike, a part is what differs
/// from the part before: its length, and then in turn how many bytes are those at the same place there, how
/// many new ones follow, and these. decodeParts() is bounded, for outside bytes: by the body's length, `count`,
/// and what an allGather may have together (Frame::kMaxBody). Error (remote) says what is wrong. Not logged.
std::string encodeParts(const std::vector<std::string>& parts);
Result<Parts> decodeParts(std::string_view body, size_t count);

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
