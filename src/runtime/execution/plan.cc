// What follows from the sizes of a call is worked out here, once for each CallKey, so that a Run has little
// to do.
#include "runtime/execution/plan.h"

#include <algorithm>
#include <set>

#include "algorithms/builder/builder.h"
#include "algorithms/cost/simulate.h"
#include "algorithms/selection/candidates.h"
#include "algorithms/verify/verify.h"
#include "base/log.h"

namespace eccl::runtime {
namespace {

void layOutBlocks(const Call& call, const Program& program, Plan& plan) {
  auto table = [&](Space space, const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
    auto& extents = plan.extents[static_cast<int>(space)];
    uint64_t packed = 0;
    for (int32_t i = 0; i < program.map(space).number; ++i) {
      size_t at = static_cast<size_t>(i);
      extents.push_back({offsets.empty() ? packed : offsets[at], counts[at]});
      packed += counts[at];
    }
  };
  if (!call.varies()) return;
  table(Space::input, call.sendCounts, call.sendOffsets);
  table(Space::output, call.receiveCounts, call.receiveOffsets);
  // Scratch mirrors blocks that all ranks know the sizes of: the table with one entry per block.
  const auto& known = call.collective == Collective::reduceScatterv ? call.sendCounts : call.receiveCounts;
  for (int32_t i = 0; i < program.map(Space::scratch).number; ++i) {
    plan.extents[static_cast<int>(Space::scratch)].push_back(
        {0, known[static_cast<size_t>(program.map(Space::scratch).block(i))]});
  }
}

uint64_t largestBlock(const Call& call) {
  if (!call.varies()) return call.count;
  const auto& known = call.collective == Collective::reduceScatterv ? call.sendCounts : call.receiveCounts;
  return known.empty() ? 0 : *std::max_element(known.begin(), known.end());
}

/// Bytes of the rank's two buffers. Where it has one, as in Send and Recv and away from a root, there is
/// another one as long at another rank, whose data goes through the same caches.
size_t footprintOf(const Plan& plan) {
  size_t elements[2] = {};
  for (Space space : {Space::input, Space::output}) {
    const BlockMap& map = plan.program->map(space);
    for (int i = 0; i < map.number; ++i)
      elements[space == Space::output] += plan.view.extent(space, map.block(i)).elements;
  }
  const bool one = elements[0] == 0 || elements[1] == 0;
  return (elements[0] + elements[1]) * plan.view.elementBytes * (one ? 2 : 1);
}

/// Plan::used of the caller's input or output.
Plan::Bytes usedOf(const Plan& plan, Space space) {
  const BlockMap& map = plan.program->map(space);
  std::vector<BlockExtent> extents;
  for (int i = 0; i < map.number; ++i) {
    if (const BlockExtent extent = plan.view.extent(space, map.block(i)); extent.elements > 0)
      extents.push_back(extent);
  }
  if (extents.empty()) return {};
  std::sort(extents.begin(), extents.end(),
            [](const BlockExtent& a, const BlockExtent& b) { return a.offset < b.offset; });
  uint64_t end = extents[0].offset;
  for (const BlockExtent& extent : extents) {
    if (extent.offset > end) return {};
    end = std::max(end, extent.offset + extent.elements);
  }
  const auto& operands = plan.program->operands;
  return {extents[0].offset * plan.view.elementBytes, end * plan.view.elementBytes,
          std::any_of(operands.begin(), operands.end(),
                      [space](const Operand& each) { return each.space == space && each.posted; })};
}

/// How many messages of so many bytes may be on their way to another rank at once.
uint32_t mostAhead(const Program& program, const Placement& placement, int rank, uint64_t bytes) {
  std::set<int> far;
  for (const ConnectionSpec& connection : program.connections) {
    const auto host = [&](int of) { return placement.host[static_cast<size_t>(of)]; };
    if (connection.sends && host(connection.peer) != host(rank)) far.insert(connection.peer);
  }
  if (static_cast<int>(far.size()) <= algorithms::kFewNeighbours || bytes == 0) return UINT32_MAX;
  // No schedule of ours needs more than two (eccl_sched verify tells).
  return static_cast<uint32_t>(std::clamp<uint64_t>(algorithms::kAheadBytes / bytes, 2, UINT32_MAX));
}

void findConnections(const Program& program, Plan& plan) {
  for (const Lane& lane : program.lanes) {
    std::vector<bool> used(program.connections.size(), false);
    for (int s = lane.firstStep; s < lane.firstStep + lane.steps; ++s) {
      const Step& step = program.steps[static_cast<size_t>(s)];
      for (int i = 0; i < step.sources + step.destinations; ++i) {
        const Operand& operand = program.operands[static_cast<size_t>(step.firstOperand + i)];
        if (operand.space != Space::connection) continue;
        for (int repeat = 0; repeat < step.repeat; ++repeat) {
          used[static_cast<size_t>(operand.index.at(repeat))] = true;
          if (operand.index.stride == 0) break;
        }
      }
    }
    std::vector<int> connections;
    for (size_t c = 0; c < used.size(); ++c) {
      if (used[c]) connections.push_back(static_cast<int>(c));
    }
    plan.laneConnections.push_back(std::move(connections));
  }
}

/// How many tiles' worth of messages a connection's offers are enough for.
void findPosts(const Program& program, uint32_t offers, Plan& plan) {
  bool any = false;
  for (const Lane& lane : program.lanes) {
    std::vector<int> messages(program.connections.size(), 0);
    bool posts = false;
    for (int s = lane.firstStep; s < lane.firstStep + lane.steps; ++s) {
      const Step& step = program.steps[static_cast<size_t>(s)];
      const Operand* operands = &program.operands[static_cast<size_t>(step.firstOperand)];
      posts |= step.destinations > 0 && operands[step.sources].posted;
      for (int i = 0; i < step.sources; ++i) {
        if (operands[i].space != Space::connection) continue;
        for (int repeat = 0; repeat < step.repeat; ++repeat)
          ++messages[static_cast<size_t>(operands[i].index.at(repeat))];
      }
    }
    const int most = posts ? *std::max_element(messages.begin(), messages.end()) : 1;
    plan.ahead.push_back(posts ? static_cast<int8_t>(std::clamp(static_cast<int>(offers) / most - 1, 0, 64))
                               : -1);
    any |= posts;
  }
  if (!any) plan.ahead.clear();
}

/// Whether tiles of a lane may be made together: it has one move in each, of one piece of memory, which sends
/// nothing. One that receives nothing either keeps others' messages waiting: only between two ranks.
bool joins(const Program& program, const Lane& lane) {
  if (lane.steps != 1) return false;
  const Step& step = program.steps[static_cast<size_t>(lane.firstStep)];
  if (step.repeat != 1 || step.waitLane != kNoLane) return false;
  const auto* operands = &program.operands[static_cast<size_t>(step.firstOperand)];
  bool receives = false, pieces = true, toMemory = step.destinations > 0;
  for (int i = 0; i < step.sources; ++i) receives |= operands[i].space == Space::connection;
  for (int i = 0; i < step.sources + step.destinations; ++i)
    pieces &= operands[i].space == Space::connection ||
              (operands[i].space != Space::scratch && operands[i].count == 1);
  for (int i = step.sources; i < step.sources + step.destinations; ++i)
    toMemory &= operands[i].space != Space::connection;
  return (receives || program.ranks <= 2) && pieces && toMemory;
}

/// Where others wait for a lane, they wait for single tiles.
void findJoins(const Program& program, Plan& plan) {
  for (const Lane& lane : program.lanes) plan.joins.push_back(joins(program, lane));
  for (const Step& step : program.steps)
    if (step.waitLane != kNoLane) plan.joins[static_cast<size_t>(step.waitLane)] = 0;
}

}  // namespace

void Plan::completeView() {
  view.lanes = program->lanes.data();
  view.steps = program->steps.data();
  view.operands = program->operands.data();
  for (int s = 0; s < kMemorySpaces; ++s) view.extents[s] = extents[s].empty() ? nullptr : extents[s].data();
  view.ahead = ahead.empty() ? nullptr : ahead.data();
  view.joins = joins.empty() ? nullptr : joins.data();
}

std::shared_ptr<Plan> Plan::inGraphs() {
  if (inGraphs_ != nullptr) return inGraphs_;
  auto program = std::make_shared<Program>(*this->program);
  for (ConnectionSpec& connection : program->connections)
    connection.tag = transport::tagInGraphs(connection.tag);
  auto copy = std::make_shared<Plan>();
  copy->program = std::move(program);
  copy->view = view;
  std::copy(std::begin(extents), std::end(extents), copy->extents);
  copy->scratchBytes = scratchBytes;
  copy->relayFlags = relayFlags;
  copy->footprint = footprint;
  std::copy(std::begin(used), std::end(used), copy->used);
  copy->relayedAt = relayedAt;
  copy->ahead = ahead;
  copy->joins = joins;
  copy->mostAhead = mostAhead;
  copy->laneConnections = laneConnections;
  copy->algorithm = algorithm;
  copy->completeView();
  return inGraphs_ = copy;
}

bool Plan::prepare(const Call& call, const CallRecord& record) {
  const bool ready = std::all_of(connections.begin(), connections.end(), [](const auto* connection) {
    return connection->state() == transport::Connection::State::ready;
  });
  if (!prepared_ && ready) {
    ownedFastPath_ = FastPath::of(call, *this, record);
    fastPath_.store(ownedFastPath_.get(), std::memory_order_release);
    prepared_ = true;
  }
  return ownedFastPath_ != nullptr;
}

void Plan::bind(transport::Connector& connector) {
  if (bound_) return;
  bound_ = true;
  for (const ConnectionSpec& spec : program->connections) {
    int self = program->rank;
    transport::ConnectionId id{spec.sends ? self : spec.peer, spec.sends ? spec.peer : self, spec.channel,
                               spec.tag};
    transport::Connection* connection = connector.get(id);
    connections.push_back(connection);
    senders_.push_back(&connection->sendEnd);
    receivers_.push_back(&connection->receiveEnd);
  }
  view.senders = senders_.data();
  view.receivers = receivers_.data();
}

bool inHalves(const Placement& placement, int a, int b, uint64_t bytes) {
  if (bytes < kHalvesFrom || a == b) return false;
  const auto of = [](const std::vector<int>& by, int rank) { return by[static_cast<size_t>(rank)]; };
  return of(placement.memory, a) == of(placement.memory, b) && of(placement.accelerator, a) < 0 &&
         of(placement.accelerator, b) < 0 && !placement.oversubscribed(of(placement.machine, a));
}

Program pointToPointProgram(Collective collective, int rank, int ranks, int peer, bool halves) {
  if (peer == rank) {  // both ends in one call: a copy
    algorithms::Builder b({Collective::broadcast, 1, 0}, 0, 1, 1);
    b.lane(0);
    b.step({algorithms::input()}, {algorithms::output()});
    return b.take();
  }
  algorithms::Builder b({collective, ranks, 0}, rank, 1, halves ? 2 : 1);
  b.lane(0);
  if (collective == Collective::send) {
    const int to = b.sendTo(peer, 0, transport::kPointToPointTag);
    b.step({algorithms::input().stable()}, {algorithms::connection(to)});
    if (halves) b.step({algorithms::input().part(1).stable()}, {algorithms::connection(to).pushed()});
  } else {
    const int from = b.receiveFrom(peer, 0, transport::kPointToPointTag);
    b.step({algorithms::connection(from)}, {algorithms::output()});
    if (halves) b.step({algorithms::connection(from)}, {algorithms::output().part(1).posted()});
  }
  if (halves) return b.take();
  // An empty message is a message: Send and Recv of no elements meet like any others.
  b.streams();
  return b.take();
}

Result<std::shared_ptr<const Program>> Planner::program(const algorithms::Algorithm& algorithm, int root,
                                                        int channels) {
  auto& kept = programs_[{&algorithm, root, channels}];
  if (kept != nullptr) return kept;
  algorithms::CollectiveShape shape{algorithm.collective, context_.ranks, root};
  if (context_.verify) {
    for (bool inPlace : {false, true}) {
      algorithms::Verdict verdict =
          algorithms::verify(algorithms::buildAll(algorithm, shape, *context_.placement, channels), inPlace);
      if (!verdict.ok || verdict.minSlots > static_cast<int>(context_.ring.slots)) {
        std::string why = verdict.ok ? format("it needs %d slots per connection and ECCL_SLOTS is %u",
                                              verdict.minSlots, context_.ring.slots)
                                     : verdict.reason;
        return logged(Status::error(verdict.ok ? Code::invalidUsage : Code::internal,
                                    "the schedule %s %s for %d ranks is refuted: %s",
                                    nameOf(algorithm.collective), algorithm.name, context_.ranks, why.c_str()));
      }
    }
  }
  kept = std::make_shared<const Program>(algorithm.build(shape, *context_.placement, context_.rank, channels));
  return kept;
}

uint64_t Planner::tileOf(const algorithms::Choice& choice) {
  if (choice.tile > 0) return choice.tile;
  const auto [usual, isNew] = usualTiles_.try_emplace(choice.algorithm, 0);
  if (isNew) usual->second = algorithms::usualTile(*choice.algorithm, *context_.placement);
  return usual->second;
}

Result<std::shared_ptr<Plan>> Planner::make(const Call& call, std::shared_ptr<const Program> program,
                                            uint64_t tileBytes) {
  auto plan = std::make_shared<Plan>();
  plan->program = program;
  PlanView& view = plan->view;
  for (int s = 0; s < kMemorySpaces; ++s) view.maps[s] = program->maps[s];
  view.streams = program->streams;
  view.elementBytes = static_cast<uint32_t>(sizeOf(call.type));
  view.blockElements = call.count;
  layOutBlocks(call, *program, *plan);
  plan->completeView();

  const int32_t longestMessage = program->messageParts;
  const uint64_t least = static_cast<uint64_t>(longestMessage) * view.elementBytes;
  if (least > context_.ring.slotBytes) {
    return Status::error(
        Code::invalidUsage,
        "%s among %d ranks sends %d parts as one message, more than ECCL_SLOT_BYTES = %u holds; raise it "
        "to at least %zu",
        nameOf(call.collective), context_.ranks, longestMessage, context_.ring.slotBytes,
        static_cast<size_t>(least));
  }
  const uint64_t messageBytes =
      tileBytes > 0 ? std::clamp<uint64_t>(tileBytes, least, context_.ring.slotBytes) : context_.ring.slotBytes;
  if (!program->streams) {
    const uint64_t largest = largestBlock(call);
    view.partition = partitionFor(*program, largest, view.elementBytes, messageBytes);
    view.tiles = view.partition.tiles(largest);
  } else {  // the sizes are not known to all, so nothing may depend on them
    view.partition.parts = program->parts;
    view.partition.tile = messageBytes / least;
    for (const Step& step : program->steps) {
      plan->relayedAt.push_back(static_cast<int32_t>(plan->relayFlags));
      plan->relayFlags += static_cast<size_t>(step.repeat);
    }
  }
  plan->scratchBytes = static_cast<size_t>(program->map(Space::scratch).number) *
                       static_cast<size_t>(program->parts) * view.partition.tile * view.elementBytes;
  plan->footprint = footprintOf(*plan);
  for (const Space space : {Space::input, Space::output})
    plan->used[static_cast<int>(space)] = usedOf(*plan, space);
  plan->used[static_cast<int>(Space::scratch)] = {0, plan->scratchBytes};
  plan->mostAhead = mostAhead(*program, *context_.placement, context_.rank,
                              view.partition.tile * view.elementBytes * static_cast<uint64_t>(longestMessage));
  findConnections(*program, *plan);
  if (!program->streams) findPosts(*program, context_.ring.offers(), *plan);
  if (program->streams || view.tiles > 1) findJoins(*program, *plan);
  plan->completeView();
  return plan;
}

Result<std::shared_ptr<Plan>> Planner::planPointToPoint(const Call& call) {
  auto program = std::make_shared<const Program>(pointToPointProgram(
      call.collective, context_.rank, context_.ranks, call.root,
      inHalves(*context_.placement, context_.rank, call.root, call.count * sizeOf(call.type))));
  return make(call, std::move(program), 0);
}

Result<std::shared_ptr<Plan>> Planner::plan(const Call& call) {
  const CallKey key = call.key();
  if (!call.varies()) {
    if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  }
  std::shared_ptr<Plan> plan;
  if (call.pointToPoint()) {
    ECCL_ASSIGN(plan, planPointToPoint(call));
    plan->algorithm = "direct";
  } else {
    uint64_t bytes = largestBlock(call) * sizeOf(call.type);
    size_t known = call.collective == Collective::allToAllv ? 0 : bytes;
    algorithms::Choice choice = algorithms::select(call.collective, known, context_.ranks, context_.selection);
    int channels = choice.channels;
    if (context_.minChannels > 0) channels = std::max(channels, context_.minChannels);
    if (context_.maxChannels > 0) channels = std::min(channels, context_.maxChannels);
    if (context_.channels > 0) channels = context_.channels;
    ECCL_ASSIGN(auto chosen, program(*choice.algorithm, hasRoot(call.collective) ? call.root : 0, channels));
    ECCL_ASSIGN(plan, make(call, std::move(chosen), tileOf(choice)));
    plan->algorithm = choice.algorithm->name;
  }
  if (call.varies()) return plan;
  if (plans_.size() >= kCached) plans_.clear();
  plans_.emplace(key, plan);
  return plan;
}

}  // namespace eccl::runtime
