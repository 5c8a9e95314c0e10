// The calls that a group collects.
#pragma once

#include <memory>
#include <vector>

#include "runtime/api/handles.h"

namespace eccl::runtime {

/// Calls in the order in which they were made. A group may have hundreds of short ones, many of them alike, so
/// of each only what differs is kept. Owner and thread: the group's.
class GroupCalls {
 public:
  /// Where the calls of a series belong.
  struct Place {
    ecclComm_t comm;
    uint32_t stream;  // number of `streams`
    bool nullStream;
    std::unique_ptr<Call> whole;  // of one that is not plain, which is a series by itself
  };

  bool empty() const { return buffers_.empty(); }
  /// All of them; of one that is not plain what a PlainCall can hold.
  PlainCalls plain() const { return {series_, buffers_}; }
  const std::vector<CallSeries>& series() const { return series_; }
  const Place& place(size_t series) const { return places_[series]; }
  const std::vector<std::shared_ptr<Stream>>& streams() const { return streams_; }
  const std::shared_ptr<Stream>& streamOf(size_t series) const { return streams_[places_[series].stream]; }
  /// A copy of call number `number`, which is in that series.
  Call call(size_t series, size_t number) const {
    return places_[series].whole != nullptr ? *places_[series].whole
                                            : PlainCall{series_[series].key, buffers_[number]}.call();
  }
  /// Visits (series, call) by number.
  template <class Visit>
  void forEach(Visit&& visit) const {
    for (size_t s = 0; s < series_.size(); ++s)
      for (size_t i = 0; i < series_[s].calls; ++i) visit(s, series_[s].first + i);
  }

  // What adds a call may throw bad_alloc. Then all is to be forgotten.
  void add(ecclComm_t comm, const std::shared_ptr<Stream>& stream, bool nullStream, Call call) {
    uint32_t number = 0;
    while (number < streams_.size() && streams_[number] != stream) ++number;
    if (number == streams_.size()) streams_.push_back(stream);
    const PlainCall plain{call.key(), {call.send, call.receive}};
    auto whole = call.isPlain() ? nullptr : std::make_unique<Call>(std::move(call));
    add({comm, number, nullStream, std::move(whole)}, plain);
  }
  /// One more where the last belongs. There is one, and both are plain.
  void addAnother(const PlainCall& call) {
    const Place& last = places_.back();
    if (!isAlike(call)) return add({last.comm, last.stream, last.nullStream, nullptr}, call);
    goOn(call);
  }
  /// The same for one that differs from the last in its buffers alone. False: it does not, or there is no
  /// memory at hand; nothing has changed.
  bool addAlike(const PlainCall& call) noexcept {
    if (!isAlike(call) || buffers_.size() == buffers_.capacity()) return false;
    goOn(call);
    return true;
  }

  /// Forgets all, but not the memory for some more.
  void clear() {
    if (buffers_.capacity() > kKept) *this = {};
    places_.clear();
    series_.clear();
    buffers_.clear();
    streams_.clear();
  }

 private:
  static constexpr size_t kKept = 4096;

  bool isAlike(const PlainCall& call) const { return series_.back().key == call.key; }
  void goOn(const PlainCall& call) {
    buffers_.push_back(call.buffers);
    ++series_.back().calls;
  }
  void add(Place place, const PlainCall& call) {
    places_.push_back(std::move(place));
    series_.push_back({call.key, buffers_.size(), 1});
    buffers_.push_back(call.buffers);
  }

  std::vector<Place> places_;  // by series, as series_
  std::vector<CallSeries> series_;
  std::vector<CallBuffers> buffers_;  // by call
  std::vector<std::shared_ptr<Stream>> streams_;
};

}  // namespace eccl::runtime
