// The calls that a group collects.
#pragma once

#include <memory>
#include <vector>

#include "runtime/api/handles.h"

namespace eccl::runtime {

/// Calls in the order in which they were made. A group may have hundreds of short ones, so of each only what
/// differs is kept. Owner and thread: the group's.
class GroupCalls {
 public:
  /// Where a call belongs.
  struct Place {
    ecclComm_t comm;
    uint32_t stream;  // number of `streams`
    bool nullStream;
    std::unique_ptr<Call> whole;  // of one that is not plain
  };

  bool empty() const { return plain_.empty(); }
  size_t size() const { return plain_.size(); }
  const Place& place(size_t call) const { return places_[call]; }
  /// All of them; of one that is not plain what a PlainCall can hold.
  const std::vector<PlainCall>& plain() const { return plain_; }
  const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  const std::shared_ptr<Stream>& streamOf(size_t call) const { return streams_[places_[call].stream]; }
  /// A copy of call number `call`.
  Call call(size_t call) const {
    return places_[call].whole != nullptr ? *places_[call].whole : plain_[call].call();
  }

  // What adds a call may throw bad_alloc. Then all is to be forgotten.
  void add(ecclComm_t comm, const std::shared_ptr<Stream>& stream, bool nullStream, Call call) {
    uint32_t number = 0;
    while (number < streams_.size() && streams_[number] != stream) ++number;
    if (number == streams_.size()) streams_.push_back(stream);
    const PlainCall plain{call.key(), call.send, call.receive};
    auto whole = call.isPlain() ? nullptr : std::make_unique<Call>(std::move(call));
    add({comm, number, nullStream, std::move(whole)}, plain);
  }
  /// One more where the last belongs. There is one, and this one is plain.
  void addAnother(const PlainCall& call) {
    const Place& last = places_.back();
    add({last.comm, last.stream, last.nullStream, nullptr}, call);
  }

  /// Forgets all, but not the memory for some more.
  void clear() {
    if (plain_.capacity() > kKept) *this = {};
    places_.clear();
    plain_.clear();
    streams_.clear();
  }

 private:
  static constexpr size_t kKept = 4096;

  void add(Place place, const PlainCall& call) {
    places_.push_back(std::move(place));
    plain_.push_back(call);
  }

  std::vector<Place> places_;  // by call, as plain_
  std::vector<PlainCall> plain_;
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace eccl::runtime
