// Preparing: each move of each lane is resolved as the interpreter would resolve it. Making: the lanes take
// turns, each as far as it gets.
#include "runtime/execution/fast_path.h"

#include <algorithm>
#include <cstring>

#include "algorithms/builder/collective.h"
#include "program/growing.h"
#include "program/offers.h"
#include "program/remote_reads.h"
#include "program/timed_move.h"
#include "runtime/execution/plan.h"
#include "runtime/execution/run.h"

namespace eccl::runtime {
namespace {

static_assert(kGrowFrom >= kReadFrom, "messages that are short do not grow");

/// Whether messages of so many bytes go in slots at all these ends, whatever their state: by deliveryOf().
bool isShort(const interpreter::MoveEnds& ends, uint32_t length) {
  bool fits = length < kReadFrom;
  for (int i = 0; i < ends.sources; ++i)
    fits &= ends.from[i] == nullptr ||
            (length < ends.from[i]->directFrom && length <= ends.from[i]->shape.slotBytes);
  for (int i = 0; i < ends.destinations; ++i) fits &= ends.to[i] == nullptr || length < ends.to[i]->directFrom;
  return fits;
}

/// Whether a receiver chooses whether messages of so many bytes are written past the caches.
bool isWeighed(const interpreter::MoveEnds& ends, uint32_t length) {
  bool any = false;
  for (int i = 0; i < ends.sources; ++i) any |= ends.from[i] != nullptr && ends.from[i]->choice != nullptr;
  for (int i = 0; i < ends.destinations; ++i) any |= ends.to[i] != nullptr && ends.to[i]->weighed;
  return any && length >= kStreamFrom;
}

/// Few bytes without a call. What is written twice is written alike.
void copyFew(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 64) {
    std::memcpy(to, from, bytes);
  } else if (bytes >= 16) {
    for (size_t at = 0; at + 16 < bytes; at += 16) std::memcpy(to + at, from + at, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else {
    for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
  }
}

/// These bytes of a copy.
void copyPart(const kernels::ReduceTask& task, uint32_t at, uint32_t bytes) {
  kernels::ReduceTask part;
  part.sources = part.destinations = 1;
  part.streamed = task.streamed;
  part.count = bytes;
  part.source[0] = static_cast<const std::byte*>(task.source[0]) + at;
  part.destination[0] = static_cast<std::byte*>(task.destination[0]) + at;
  kernels::reduce(part);
}

}  // namespace

std::unique_ptr<FastPath> FastPath::of(const Call& call, const Plan& plan, const CallRecord& record) {
  const PlanView& view = plan.view;
  const bool oneTile =
      view.streams ? call.pointToPoint() && view.partition.tiles(call.count) <= 1 : view.tiles <= 1;
  if (!oneTile || call.varies() || call.collective == Collective::barrier || call.op > RedOp::avg ||
      plan.scratchBytes > 0 || plan.connections.empty()) {
    return nullptr;
  }
  auto made = std::unique_ptr<FastPath>(new FastPath);
  int polled = 0;
  for (const transport::Connection* connection : plan.connections) {
    if (connection->path()->inMemory()) continue;
    if (!connection->path()->polls()) return nullptr;
    made->sockets_.push_back(connection->path());
    made->at_ = std::max(made->at_,
                         connection->path()->pollsMemory() ? FastLooks::At::devices : FastLooks::At::sockets);
    if (!connection->sends() && ++polled > kMaxPolled) return nullptr;
  }
  for (size_t lane = 0; lane < plan.program->lanes.size(); ++lane) {
    if (!made->addLane(call, plan, static_cast<int>(lane))) return nullptr;
  }
  const algorithms::CollectiveShape shape{call.collective, plan.program->ranks, call.root};
  made->record_ = record;
  made->shape_ = record.shape();
  made->sendsOn_ = !call.pointToPoint();
  made->connections_ = plan.connections;
  if (made->isShort_ && made->sockets_.empty() && plan.connections.size() <= Wakes::kMost) {
    for (const transport::Connection* connection : plan.connections)
      made->wakes_.paths_[made->wakes_.count_++] = connection->path();
  }
  made->needsSend_ = call.count > 0 && shape.input(plan.program->rank).number > 0;
  made->needsReceive_ = call.count > 0 && shape.output(plan.program->rank).number > 0;
  made->needsTwo_ = call.collective == Collective::allToAll && made->needsSend_;
  return made;
}

bool FastPath::addLane(const Call& call, const Plan& plan, int lane) {
  const Lane& form = plan.view.lanes[lane];
  const bool posts = plan.view.ahead != nullptr && plan.view.ahead[lane] >= 0;
  const size_t first = moves_.size();
  for (int32_t s = 0; s < form.steps; ++s) {
    const Step& step = plan.view.steps[form.firstStep + s];
    if (step.waitLane != kNoLane) return false;
    for (int32_t repeat = 0; repeat < step.repeat; ++repeat) {
      if (!addMove(call, plan, step, s, repeat, posts)) return false;
    }
  }
  lanes_.push_back({first, moves_.size(), first, form.steps});
  return true;
}

bool FastPath::addMove(const Call& call, const Plan& plan, const Step& step, int32_t stepIndex, int32_t repeat,
                       bool posts) {
  const PlanView& view = plan.view;
  const bool scales = call.op == RedOp::avg && isFloating(call.type);
  interpreter::Resolved resolved;
  LaneState at;
  at.repeat = repeat;
  if (!interpreter::identify(view, at, step, resolved)) return false;
  resolved.length = static_cast<uint32_t>(interpreter::lengthOf(view, resolved, 0));
  if (resolved.length == 0 && !view.streams) return true;  // nothing is sent
  const uint64_t begin = view.partition.slice(resolved.elements, resolved.part, 0).begin;
  const auto place = [&](int i) -> Place {
    const Space space = view.operands[step.firstOperand + i].space;
    if (space == Space::connection) return {};
    return {space, (resolved.extent[i].offset + begin) * view.elementBytes};
  };

  Move move{};
  interpreter::findEnds(view, step, repeat, move.ends);
  move.task.type = call.type;
  move.task.op = call.op == RedOp::avg ? RedOp::sum : call.op;
  move.task.count = resolved.length / view.elementBytes;
  move.task.sources = step.sources;
  for (int i = 0; i < step.sources; ++i) {
    move.sources[i] = place(i);
    if (scales && view.operands[step.firstOperand + i].pre)
      move.task.pre[i] = kernels::Scale::multiplyBy(1.0 / plan.program->ranks);
  }
  for (int i = 0; i < step.destinations; ++i) move.destinations[i] = place(step.sources + i);
  if (call.op == RedOp::avg && !scales && step.post)
    move.task.post = kernels::Scale::divideBy(plan.program->ranks);
  move.outgoing = interpreter::outgoing(view, step, resolved, scales);
  move.step = stepIndex;
  move.repeat = repeat;
  move.isShort = isShort(move.ends, resolved.length);
  move.isWeighed = isWeighed(move.ends, resolved.length);
  move.isCopy = kernels::isCopy(move.task);
  move.isSimple = move.isCopy && step.destinations == 1;
  // In collectives ranks write to each other at the same time, and nobody follows.
  const SendEnd* const to = move.isSimple && move.ends.from[0] == nullptr ? move.ends.to[0] : nullptr;
  move.grows = to != nullptr && to->mayGrow && call.pointToPoint() && resolved.length >= kGrowFrom;
  move.follows = move.isSimple && move.ends.from[0] != nullptr && move.ends.to[0] == nullptr;
  isShort_ &= move.isShort;
  for (int i = 0; i < step.sources; ++i) {
    ReceiveEnd* from = move.ends.from[i];
    if (from == nullptr) continue;
    const Offer offer = interpreter::offerOf(view, step, resolved, *from);
    move.offers = offer != Offer::never;
    // All of a lane's messages are listed, as the interpreter counts them all.
    if (posts) posts_.push_back({from, move.destinations[0], offer == Offer::ahead ? resolved.length : 0});
  }
  moves_.push_back(move);
  return true;
}

bool FastPath::accepts(const void* send, const void* receive) const {
  return (send != nullptr || !needsSend_) && (receive != nullptr || !needsReceive_) &&
         (send != receive || !needsTwo_);
}

void FastPath::begin(const void* send, void* receive, uint32_t signature) {
  buffers_[static_cast<int>(Space::input)] = static_cast<std::byte*>(const_cast<void*>(send));
  buffers_[static_cast<int>(Space::output)] = static_cast<std::byte*>(receive);
  signature_ = signature;
  for (MovesOfLane& lane : lanes_) lane.at = lane.begin;
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
  for (int i = 0; i < ends.sources; ++i) {
    task.source[i] = ends.from[i] != nullptr ? interpreter::dataOf(*ends.from[i], received[i], 0,
                                                                   static_cast<std::byte*>(task.destination[0]))
                                             : memory(move.sources[i]);
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
      return Answer::blocked;
    }
    if (found == ReceiveEnd::Expected::other) return Answer::unusual;
    task.source[i] = data;
  }
  for (int i = 0; i < destinations; ++i)
    if (ends.to[i] != nullptr && ends.to[i]->reserve(length) == nullptr) return Answer::blocked;
  std::conditional_t<kWeighed, interpreter::TimedMove, interpreter::UntimedMove> timed(ends, length);
  Passed passed;
  for (int i = 0; i < destinations; ++i) {
    SendEnd* const to = ends.to[i];
    if (kWeighed && to != nullptr) interpreter::weigh(*to, length, static_cast<uint8_t>(1u << i), passed);
    task.destination[i] = to != nullptr ? to->place(length) : memory(move.destinations[i]);
  }
  task.destinations = destinations;
  task.streamed = passed.streams;
  if ((kEnds == 0 && !move.isCopy) || passed.streams != 0) {
    if (task.count > 0) kernels::reduce(task);
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
    const Answer answer = move.isShort ? makeShort(move) : make(move, patience);
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
      const Answer answer = move.isShort ? makeShort(move) : make(move, patience);
      if (answer == Answer::unusual) return answer;
      if (answer == Answer::blocked) break;
      moved = true;
    }
    made &= lane.at == lane.end;
  }
  bool complete = made;
  // Short messages refer to nothing, and the calls before have ended.
  for (size_t c = 0; complete && !isShort_ && c < connections_.size(); ++c)
    complete = !connections_[c]->sends() || connections_[c]->sendEnd.getsReleased();
  if (complete) return Answer::done;
  if (moved) return Answer::moved;
  return made ? Answer::drains : Answer::blocked;
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
