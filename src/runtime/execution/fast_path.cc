// Making a call that is prepared: the lanes take turns, each as far as it gets.
#include "runtime/execution/fast_path.h"

#include <algorithm>
#include <cstring>

#include "program/growing.h"
#include "program/remote_reads.h"
#include "program/timed_move.h"
#include "runtime/execution/run.h"

namespace eccl::runtime {
namespace {

/// From kPart to twice as many bytes: what is written twice is written alike.
template <size_t kPart>
void copyEnds(std::byte* to, const std::byte* from, size_t bytes) {
  std::memcpy(to, from, kPart);
  std::memcpy(to + bytes - kPart, from + bytes - kPart, kPart);
}

/// Few bytes without a call.
void copyFew(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 64) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 32) {
    copyEnds<32>(to, from, bytes);
  } else if (bytes >= 16) {
    copyEnds<16>(to, from, bytes);
  } else if (bytes >= 8) {
    copyEnds<8>(to, from, bytes);
  } else if (bytes >= 4) {
    copyEnds<4>(to, from, bytes);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

/// These bytes of a copy.
void copyPart(const kernels::ReduceTask& task, uint32_t at, uint32_t bytes) {
  kernels::ReduceTask part;
  part.sources = part.destinations = 1;
  part.streamed = task.streamed;
  part.claimed = task.claimed;
  part.count = bytes;
  part.source[0] = static_cast<const std::byte*>(task.source[0]) + at;
  part.destination[0] = static_cast<std::byte*>(task.destination[0]) + at;
  // What grows is read from the beginning on, so it is copied like that.
  if ((part.streamed | part.claimed) == 0) return kernels::reduceReference(part);
  kernels::reduce(part);
}

/// Whether one of a move's messages, of `length` bytes, is measured, or written past the caches. Those from
/// peers have come.
bool isWeighedNow(const interpreter::MoveEnds& ends, int sources, int destinations, uint32_t length) {
  bool any = false;
  for (int i = 0; i < sources; ++i)
    any |= ends.from[i] != nullptr && ends.from[i]->slot(ends.from[i]->coming())->sent.done != 0;
  for (int i = 0; i < destinations; ++i)
    any |= ends.to[i] != nullptr && (ends.to[i]->samples(length) || ends.to[i]->streams(length));
  return any;
}

}  // namespace

void FastPath::post() {
  for (const Post& post : posts_) {
    const uint64_t message = post.from->consider();
    if (post.length > 0 && post.from->mayOffer(message))
      post.from->offer(message, memory(post.memory), post.length);
  }
}

FastPath::Answer FastPath::make(Move& move, FastLooks::Patience patience) {
  // A blocked move leaves no trace at its connections: each is looked at before any is touched.
  const interpreter::MoveEnds& ends = move.ends;
  const Outgoing& outgoing = move.outgoing;
  Received received[kMaxOperands];
  for (int i = 0; i < ends.sources; ++i) {
    ReceiveEnd* from = ends.from[i];
    if (from == nullptr) continue;
    if (!from->peek(received[i])) {
      // The sender writes to the line of a message that grows: no look at that alone.
      awaited_ = from->hasCome() ? nullptr : from;
      if (awaited_ != nullptr && move.offers && !from->answered())
        from->offer(from->next, memory(move.destinations[0]), outgoing.length);
      return move.follows && move.vain != from->next + 1 ? follow(move, patience.forGrowth) : Answer::blocked;
    }
    if (interpreter::faultOf(*from, received[i], signature_, outgoing.length, true) != LaneFault::none)
      return Answer::unusual;
  }
  const auto source = [&] { return memory(move.sources[0]); };
  for (int i = 0; i < ends.destinations; ++i) {
    if (ends.to[i] != nullptr && !interpreter::canSend(ends, i, outgoing, source, patience.forPlaces))
      return Answer::blocked;
  }
  const uint8_t reads = interpreter::referring(ends, received);
  if (interpreter::beginReading(ends, reads) >= 0) return Answer::unusual;

  kernels::ReduceTask& task = move.task;
  task.destinations = task.streamed = 0;
  std::byte* messages[kMaxOperands];
  interpreter::TimedMove timed(ends, outgoing.length);
  Passed passed = interpreter::placeMessages(ends, outgoing, source, messages);
  for (int i = 0; i < ends.destinations; ++i) {
    std::byte* to = ends.to[i] != nullptr ? messages[i] : memory(move.destinations[i]);
    if ((passed.streams >> i & 1) != 0) task.streamed |= static_cast<uint8_t>(1u << task.destinations);
    if (to != nullptr) task.destination[task.destinations++] = to;
  }
  if (const uint8_t which = interpreter::inProcesses(ends, received, reads); which != 0) {
    LaneFault fault;
    const bool isWhole = task.destinations > 0 && (task.streamed & 1) == 0;
    auto* const whole = static_cast<std::byte*>(isWhole ? task.destination[0] : nullptr);
    if (interpreter::readSources(ends, received, which, whole, &fault) >= 0) {
      interpreter::endReading(ends, reads);
      interpreter::abandon(ends, passed);
      return Answer::unusual;
    }
  }
  task.claimed = 0;
  for (int i = 0; i < ends.sources; ++i) {
    const ReceiveEnd* from = ends.from[i];
    if (from == nullptr) {
      task.source[i] = memory(move.sources[i]);
      continue;
    }
    task.source[i] = interpreter::dataOf(*from, received[i], 0, static_cast<std::byte*>(task.destination[0]));
    if (interpreter::claims(*from, received[i])) task.claimed |= static_cast<uint8_t>(1u << i);
  }
  if (move.grows && patience.forGrowth > 0 && (passed.gets | passed.puts) == 0) {
    passed.growing = 1;
    ends.to[0]->grow(outgoing.length, kSlotLast | (passed.streams != 0 ? kSlotStreamed : 0), signature_);
    writeGrowing(*ends.to[0], outgoing.length, [&](uint32_t at, uint32_t bytes) { copyPart(task, at, bytes); });
  } else if (task.destinations > 0 && task.count > 0) {
    kernels::reduce(task);
  }
  timed.complete(passed);

  if (interpreter::endReading(ends, reads) >= 0) {
    interpreter::abandon(ends, passed);
    return Answer::unusual;
  }
  interpreter::commit(ends, passed, outgoing.length, kSlotLast, signature_);
  return Answer::moved;
}

FastPath::Answer FastPath::follow(Move& move, int looks) {
  ReceiveEnd& from = *move.ends.from[0];
  Received received;
  if (!from.peekGrowing(received) || (received.flags & kSlotGrowing) == 0) return Answer::blocked;
  const uint32_t length = move.outgoing.length;
  if (interpreter::faultOf(from, received, signature_, length, true) != LaneFault::none) return Answer::unusual;
  kernels::ReduceTask task;
  task.source[0] = received.data;
  task.destination[0] = memory(move.destinations[0]);
  task.claimed = interpreter::claims(from, received);
  interpreter::TimedMove timed(move.ends, length);
  const bool whole =
      readGrowing(from, length, looks, [&](uint32_t at, uint32_t bytes) { copyPart(task, at, bytes); });
  if (!whole) {
    move.vain = from.next + 1;
    return Answer::blocked;
  }
  timed.complete({});
  interpreter::commit(move.ends, {}, length, kSlotLast, signature_);
  return Answer::moved;
}

// As make(), step by step. Short messages refer to nothing and are offered nothing, so what is left is to look
// for the slots, work, and publish.
template <int kEnds, bool kWeighed>
FastPath::Answer FastPath::makeShort(Move& move) {
  const interpreter::MoveEnds& ends = move.ends;
  const int sources = kEnds > 0 ? kEnds : ends.sources, destinations = kEnds > 0 ? kEnds : ends.destinations;
  const uint32_t length = move.outgoing.length;
  kernels::ReduceTask& task = move.task;
  task.claimed = 0;
  for (int i = 0; i < sources; ++i) {
    ReceiveEnd* from = ends.from[i];
    if (from == nullptr) {
      task.source[i] = memory(move.sources[i]);
      continue;
    }
    const std::byte* data;
    const ReceiveEnd::Expected found = from->peek(length, signature_, &data);
    if (found == ReceiveEnd::Expected::none) {
      awaited_ = from;
      // Of memory that is not shown nothing, so that the sender does not wait for a place.
      if (move.offers && !move.isShort && !from->answered())
        from->offer(from->next, memory(move.destinations[0]), length);
      return Answer::blocked;
    }
    if (found == ReceiveEnd::Expected::other) return Answer::unusual;
    task.source[i] = data;
    if (interpreter::claims(*from, *from->slot(from->next))) task.claimed |= static_cast<uint8_t>(1u << i);
  }
  for (int i = 0; i < destinations; ++i)
    if (ends.to[i] != nullptr && ends.to[i]->reserve(length) == nullptr) return Answer::blocked;
  if (!kWeighed && move.isWeighed && isWeighedNow(ends, sources, destinations, length))
    return makeShort<0, true>(move);
  std::conditional_t<kWeighed, interpreter::TimedMove, interpreter::UntimedMove> timed(ends, length);
  Passed passed;
  for (int i = 0; i < destinations; ++i) {
    SendEnd* const to = ends.to[i];
    if (kWeighed && to != nullptr)
      interpreter::weigh(*to, MessageKind::plain, move.outgoing, static_cast<uint8_t>(1u << i), passed);
    task.destination[i] = to != nullptr ? to->place(length) : memory(move.destinations[i]);
  }
  task.destinations = destinations;
  task.streamed = passed.streams;
  if (task.claimed != 0 && length <= kernels::kClaimBytes) {  // at once: then every way of doing it will do
    for (int i = 0; i < sources; ++i)
      if ((task.claimed >> i & 1) != 0) kernels::claim(task.source[i], length);
    task.claimed = 0;
  }
  const bool anyWay = (passed.streams | task.claimed) == 0;
  if ((kEnds == 0 && !move.isCopy) || !anyWay) {
    if (move.reducer != nullptr && anyWay)
      move.reducer(task);
    else if (task.count > 0)
      kernels::reduce(task);
  } else {
    for (int i = 0; i < destinations; ++i) {
      auto* to = static_cast<std::byte*>(task.destination[i]);
      auto* from = static_cast<const std::byte*>(task.source[0]);
      if (to != from) copyFew(to, from, length);
    }
  }
  timed.complete(passed);
  for (int i = 0; i < destinations; ++i) {
    if (ends.to[i] == nullptr) continue;
    const bool streams = (passed.streams >> i & 1) != 0;
    ends.to[i]->publish(length, streams ? kSlotLast | kSlotStreamed : kSlotLast, signature_);
    if (sendsOn_ && !streams) ends.to[i]->takeNext(length);
  }
  for (int i = 0; i < sources; ++i)
    if (ends.from[i] != nullptr) ends.from[i]->release(length);
  return Answer::moved;
}

FastPath::Answer FastPath::makeSeries(std::span<const CallBuffers> buffers, uint64_t first,
                                      FastLooks::Patience patience, size_t* made) {
  Move& move = moves_.front();
  awaited_ = nullptr;
  for (; *made < buffers.size(); ++*made) {
    const CallBuffers& its = buffers[*made];
    begin(its.send, its.receive, CallRecord::signatureOf(shape_, first + *made));
    const Answer answer = makeEither(move, patience);
    if (answer != Answer::moved) return answer;
    SendEnd* const to = move.ends.to[0];
    if (to != nullptr && !to->streams(move.outgoing.length)) to->takeNext(move.outgoing.length);
  }
  return Answer::moved;
}

FastPath::Answer FastPath::advance(FastLooks::Patience patience) {
  bool moved = false, made = true;
  for (MovesOfLane& lane : lanes_) {
    for (; lane.at < lane.end; ++lane.at) {
      Move& move = moves_[lane.at];
      const Answer answer = makeEither(move, patience);
      if (answer == Answer::unusual) return answer;
      if (answer == Answer::blocked) break;
      moved = true;
    }
    made &= lane.at == lane.end;
  }
  // Messages in slots refer to nothing, nor do those that are made of others, and the calls before have ended.
  if (made && (slotsOnly_ || exchanges_ || areRead())) return Answer::done;
  if (moved) return Answer::moved;
  return made ? Answer::drains : Answer::blocked;
}

bool FastPath::isExchanging() const {
  bool sends = false;
  for (const transport::Connection* connection : connections_) {
    if (!connection->sends()) continue;
    if (!connection->sendEnd.isExchanging()) return false;
    sends = true;
  }
  return sends || std::all_of(connections_.begin(), connections_.end(),
                              [](const transport::Connection* its) { return its->receiveEnd.tookExchanged; });
}

bool FastPath::areRead() const {
  return std::all_of(connections_.begin(), connections_.end(),
                     [](transport::Connection* connection) { return connection->isRead(); });
}

void FastPath::kick() const {
  fullFence();  // one for all paths
  for (transport::Connection* connection : connections_) connection->path()->kickAfterBarrier();
}

bool FastPath::peersWaitHere() const {
  const uint32_t here = processorHere();
  bool any = false;
  for (transport::Connection* connection : connections_) any |= connection->path()->waitsOn(here);
  return any;
}

void FastPath::handOver(Run& run) const {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const MovesOfLane& lane = lanes_[l];
    LaneState& state = run.lanes[l];
    state.postedTiles = 1;
    state.moves = lane.at - lane.begin;
    state.finished = lane.at == lane.end;
    if (!state.finished) {
      state.step = moves_[lane.at].step;
      state.repeat = moves_[lane.at].repeat;
    }
    state.done = static_cast<uint64_t>(state.finished ? lane.steps : state.step);
  }
}

}  // namespace eccl::runtime
