#include "runtime/execution/short_call.h"

#include <algorithm>

#include "algorithms/builder/collective.h"
#include "program/resolved_move.h"
#include "runtime/execution/plan.h"
#include "runtime/execution/run.h"

namespace eccl::runtime {

std::unique_ptr<ShortCall> ShortCall::of(const Call& call, const Plan& plan, const CallRecord& record) {
  const PlanView& view = plan.view;
  const bool oneTile = view.streams ? call.pointToPoint() && view.cut.tiles(call.count) <= 1 : view.tiles <= 1;
  if (!oneTile || call.varies() || call.collective == Collective::barrier || call.op > RedOp::avg ||
      plan.scratchBytes > 0 || plan.connections.empty()) {
    return nullptr;
  }
  for (const transport::Connection* connection : plan.connections) {
    if (connection->state() != transport::Connection::State::ready || !connection->path()->inMemory())
      return nullptr;
  }
  auto made = std::unique_ptr<ShortCall>(new ShortCall);
  for (size_t lane = 0; lane < plan.program->lanes.size(); ++lane) {
    if (!made->addLane(call, plan, static_cast<int>(lane))) return nullptr;
  }
  const algorithms::CollectiveShape shape{call.collective, plan.program->ranks, call.root};
  made->record_ = record;
  made->connections_ = plan.connections;
  made->needsSend_ = call.count > 0 && shape.input(plan.program->rank).number > 0;
  made->needsReceive_ = call.count > 0 && shape.output(plan.program->rank).number > 0;
  made->needsTwo_ = call.collective == Collective::allToAll && made->needsSend_;
  return made;
}

bool ShortCall::addLane(const Call& call, const Plan& plan, int lane) {
  const Lane& form = plan.view.lanes[lane];
  const bool posts = plan.view.ahead != nullptr && plan.view.ahead[lane] >= 0;
  const size_t first = moves_.size();
  for (int32_t s = 0; s < form.steps; ++s) {
    const Step& step = plan.view.steps[form.firstStep + s];
    if (step.waitLane != kNoLane) return false;
    const bool posted = step.destinations > 0 && plan.view.operands[step.firstOperand + step.sources].posted;
    for (int32_t repeat = 0; repeat < step.repeat; ++repeat) {
      const size_t before = moves_.size();
      if (!addMove(call, plan, step, s, repeat)) return false;
      if (posts && moves_.size() > before) addPost(moves_.back(), posted);
    }
  }
  lanes_.push_back({first, moves_.size(), first, form.steps});
  return true;
}

bool ShortCall::addMove(const Call& call, const Plan& plan, const Step& step, int32_t stepIndex,
                        int32_t repeat) {
  const PlanView& view = plan.view;
  interpreter::Resolved resolved;
  LaneState at;
  at.repeat = repeat;
  if (!interpreter::identify(view, at, step, resolved)) return false;
  resolved.length = static_cast<uint32_t>(interpreter::lengthOf(view, resolved, 0));
  if (resolved.length == 0 && !view.streams) return true;  // nothing is sent
  const uint64_t begin = view.cut.slice(resolved.elements, resolved.part, 0).begin;

  Move move{};
  auto place = [&](int i) {
    const Operand& operand = view.operands[step.firstOperand + i];
    Place found{operand.space, operand.placed};
    if (operand.space != Space::connection) {
      found.offset = (resolved.extent[i].offset + begin) * view.elementBytes;
      return found;
    }
    transport::Connection* connection = plan.connections[static_cast<size_t>(operand.index.at(repeat))];
    if (i < step.sources)
      found.from = &connection->receiveEnd;
    else
      found.to = &connection->sendEnd;
    return found;
  };
  move.task.type = call.type;
  move.task.op = call.op == RedOp::avg ? RedOp::sum : call.op;
  move.task.count = resolved.length / view.elementBytes;
  move.task.sources = move.sourceCount = step.sources;
  move.destinationCount = step.destinations;
  const bool scales = call.op == RedOp::avg && isFloating(call.type);
  for (int i = 0; i < step.sources; ++i) {
    move.sources[i] = place(i);
    if (scales && view.operands[step.firstOperand + i].pre)
      move.task.pre[i] = kernels::Scale::multiplyBy(1.0 / plan.program->ranks);
  }
  for (int i = 0; i < step.destinations; ++i) move.destinations[i] = place(step.sources + i);
  if (call.op == RedOp::avg && !scales && step.post)
    move.task.post = kernels::Scale::divideBy(plan.program->ranks);
  const Operand& source = view.operands[step.firstOperand];
  move.mayRefer = source.stable && !(source.pre && scales);
  move.mayBeGranted = step.sources == 1 && move.sources[0].from != nullptr && step.destinations > 0 &&
                      move.destinations[0].to == nullptr && !step.post && resolved.length > kInlineBytes;
  move.length = resolved.length;
  move.step = stepIndex;
  move.repeat = repeat;
  moves_.push_back(move);
  return true;
}

// All of a lane's messages are listed, as the interpreter counts them all.
void ShortCall::addPost(const Move& move, bool posted) {
  for (int i = 0; i < move.sourceCount; ++i) {
    if (move.sources[i].from == nullptr) continue;
    const bool grant = posted && move.mayBeGranted && move.length >= move.sources[i].from->directFrom;
    posts_.push_back({move.sources[i].from, move.destinations[0], grant ? move.length : 0});
  }
}

bool ShortCall::accepts(const void* send, const void* receive) const {
  return (send != nullptr || !needsSend_) && (receive != nullptr || !needsReceive_) &&
         (send != receive || !needsTwo_);
}

void ShortCall::begin(const void* send, void* receive, uint32_t signature) {
  buffers_[static_cast<int>(Space::input)] = static_cast<std::byte*>(const_cast<void*>(send));
  buffers_[static_cast<int>(Space::output)] = static_cast<std::byte*>(receive);
  signature_ = signature;
  for (MovesOfLane& lane : lanes_) lane.at = lane.begin;
  for (const Post& post : posts_) {
    const uint64_t message = std::max(post.from->considered, post.from->next);
    post.from->considered = message + 1;
    if (post.length > 0 && message - post.from->next < post.from->shape.grants())
      post.from->grant(message, memory(post.memory), post.length);
  }
}

bool ShortCall::expected(const ReceiveEnd& end, const Received& received, uint32_t length) const {
  if (received.epoch != end.epoch || received.signature != signature_ || received.length != length)
    return false;
  if ((received.flags & kSlotReference) != 0 && !end.theirs.holds(received.offset, length)) return false;
  if ((received.flags & kSlotPlaced) != 0 && !end.granted()) return false;
  return (received.flags & kSlotLast) != 0;
}

bool ShortCall::beginReading(const Move& move, const Received* received) {
  for (int i = 0; i < move.sourceCount; ++i) {
    if (move.sources[i].from == nullptr || (received[i].flags & kSlotReference) == 0) continue;
    if (move.sources[i].from->beginReading()) continue;
    for (int j = 0; j < i; ++j) {
      if (move.sources[j].from != nullptr) move.sources[j].from->endReading();
    }
    return false;
  }
  return true;
}

ShortCall::Answer ShortCall::make(Move& move, bool patient) {
  // A blocked move leaves no trace: every connection is looked at before any is touched.
  Received received[kMaxOperands];
  for (int i = 0; i < move.sourceCount; ++i) {
    ReceiveEnd* from = move.sources[i].from;
    if (from == nullptr) continue;
    if (!from->peek(received[i])) {
      if (move.mayBeGranted && !from->answered())
        from->grant(from->next, memory(move.destinations[0]), move.length);
      return Answer::blocked;
    }
    if (!expected(*from, received[i], move.length)) return Answer::unusual;
  }
  for (int i = 0; i < move.destinationCount; ++i) {
    SendEnd* to = move.destinations[i].to;
    if (to == nullptr) continue;
    if (to->reserve() == nullptr) return Answer::blocked;
    if (patient && move.destinations[i].placed && to->mayBeGranted(move.length)) return Answer::blocked;
  }
  if (!beginReading(move, received)) return Answer::unusual;

  kernels::ReduceTask& task = move.task;
  task.destinations = 0;
  uint16_t flags[kMaxOperands];
  for (int i = 0; i < move.destinationCount; ++i) {
    flags[i] = kSlotLast;
    SendEnd* to = move.destinations[i].to;
    if (to == nullptr) {
      task.destination[task.destinations++] = memory(move.destinations[i]);
      continue;
    }
    std::byte* place = to->granted(move.length);
    const bool refers = move.mayRefer && !(move.destinations[i].placed && place != nullptr);
    if (uint64_t offset; refers && to->reaches(memory(move.sources[0]), move.length, &offset)) {
      to->reserve()->offset = offset;
      flags[i] |= kSlotReference;
      continue;
    }
    if (place != nullptr && to->beginWriting())
      flags[i] |= kSlotPlaced;
    else
      place = to->place(move.length);
    task.destination[task.destinations++] = place;
  }
  for (int i = 0; i < move.sourceCount; ++i) {
    const ReceiveEnd* from = move.sources[i].from;
    if (from == nullptr)
      task.source[i] = memory(move.sources[i]);
    else if ((received[i].flags & kSlotPlaced) != 0)
      task.source[i] = task.destination[0];
    else
      task.source[i] =
          (received[i].flags & kSlotReference) != 0 ? from->theirs.at(received[i].offset) : received[i].data;
  }
  if (task.destinations > 0 && task.count > 0) kernels::reduce(task);

  bool intact = true;
  for (int i = 0; i < move.sourceCount; ++i) {
    if (move.sources[i].from != nullptr && (received[i].flags & kSlotReference) != 0)
      intact &= move.sources[i].from->endReading();
  }
  for (int i = 0; i < move.destinationCount; ++i) {
    SendEnd* to = move.destinations[i].to;
    if (to == nullptr) continue;
    if ((flags[i] & kSlotPlaced) != 0) to->endWriting();
    if (intact) to->publish(move.length, flags[i], signature_);
  }
  if (!intact) return Answer::unusual;
  for (int i = 0; i < move.sourceCount; ++i) {
    if (move.sources[i].from != nullptr) move.sources[i].from->release();
  }
  return Answer::moved;
}

ShortCall::Answer ShortCall::advance(bool patient) {
  bool moved = false, complete = true;
  for (MovesOfLane& lane : lanes_) {
    for (; lane.at < lane.end; ++lane.at) {
      const Answer answer = make(moves_[lane.at], patient);
      if (answer == Answer::unusual) return answer;
      if (answer == Answer::blocked) break;
      moved = true;
    }
    complete &= lane.at == lane.end;
  }
  for (size_t c = 0; complete && c < connections_.size(); ++c)
    complete = !connections_[c]->sends() || connections_[c]->sendEnd.referencesReleased();
  return complete ? Answer::done : moved ? Answer::moved : Answer::blocked;
}

void ShortCall::kick() const {
  for (transport::Connection* connection : connections_) connection->path()->kick();
}

void ShortCall::handOver(Run& run) const {
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
