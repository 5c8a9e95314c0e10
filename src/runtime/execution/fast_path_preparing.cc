// Preparing a call: each move of each lane is resolved as the interpreter would resolve it.
#include <algorithm>

#include "algorithms/builder/collective.h"
#include "program/growing.h"
#include "program/offers.h"
#include "runtime/execution/fast_path.h"
#include "runtime/execution/plan.h"
#include "transport/shm/shared_heap.h"

namespace eccl::runtime {
namespace {

static_assert(kGrowFrom >= kReadFrom, "messages that are short do not grow");
static_assert(kDirectFromExchanged >= kReadFrom, "what fits slots goes there while areas are exchanged");
static_assert(kernels::kBackwardsFrom >= kReadFrom, "memcpy is the best copy of what is short");

/// Whether messages of so many bytes fit in slots at all these ends, and are read by no kernel: by measurement
/// none of these is, but a setting may want it.
bool fitsSlots(const interpreter::MoveEnds& ends, uint32_t length) {
  bool fits = length < kReadFrom;
  for (int i = 0; i < ends.sources; ++i)
    fits &= ends.from[i] == nullptr || length <= ends.from[i]->shape.slotBytes;
  for (int i = 0; i < ends.destinations; ++i) fits &= ends.to[i] == nullptr || !ends.to[i]->isToBeRead(length);
  return fits;
}

/// Whether such messages go in slots, whatever the state of the ends: by deliveryOf().
bool isShort(const interpreter::MoveEnds& ends, uint32_t length) {
  bool fits = true;
  for (int i = 0; i < ends.sources; ++i) fits &= ends.from[i] == nullptr || length < ends.from[i]->directFrom;
  for (int i = 0; i < ends.destinations; ++i) fits &= ends.to[i] == nullptr || length < ends.to[i]->directFrom;
  return fits;
}

/// Whether a receiver chooses whether messages of so many bytes are written past the caches.
bool isWeighed(const interpreter::MoveEnds& ends, uint32_t length) {
  bool any = false;
  for (int i = 0; i < ends.sources; ++i) any |= ends.from[i] != nullptr && ends.from[i]->choices != nullptr;
  for (int i = 0; i < ends.destinations; ++i) any |= ends.to[i] != nullptr && ends.to[i]->weighed;
  return any && length >= kStreamFrom;
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
  for (const transport::Connection* connection : plan.connections) {
    const Window& mine = connection->sends() ? connection->sendEnd.mine : connection->receiveEnd.mine;
    if (mine.size == 0) continue;
    // The whole heap, of which peers may have mapped the beginning.
    if (mine.base != nullptr && connection->path()->inMemory())
      made->shown_ = transport::SharedHeap::ofThisProcess().window();
    else
      made->fitSlots_ = false;
  }
  if (made->sockets_.empty() && plan.connections.size() <= Wakes::kMost) {
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
  move.fitsSlots = fitsSlots(move.ends, resolved.length);
  move.isShort = move.fitsSlots && isShort(move.ends, resolved.length);
  move.isWeighed = isWeighed(move.ends, resolved.length);
  move.task.destinations = step.destinations;
  if (move.fitsSlots) move.reducer = kernels::reducerFor(move.task);
  move.isCopy = kernels::isCopy(move.task);
  move.isSimple = move.isCopy && step.destinations == 1;
  // In other collectives ranks write to each other at the same time, and nobody follows.
  const bool oneWay =
      call.pointToPoint() || (call.collective == Collective::broadcast && resolved.length <= kBroadcastGrowsTo);
  const SendEnd* const to = move.isSimple && move.ends.from[0] == nullptr ? move.ends.to[0] : nullptr;
  move.grows = to != nullptr && to->mayGrow && oneWay && resolved.length >= kGrowFrom;
  move.follows = move.isSimple && move.ends.from[0] != nullptr && move.ends.to[0] == nullptr;
  isShort_ &= move.isShort;
  fitSlots_ &= move.fitsSlots;
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

}  // namespace eccl::runtime
