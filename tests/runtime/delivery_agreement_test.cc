// The interpreter and the simulator pass each message in the same way.

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "algorithms/cost/simulation.h"
#include "program/interpreter.h"
#include "runtime/execution/plan.h"

namespace eccl::runtime {
namespace {

constexpr RingShape kShape{8, 32768};
enum class Way : char { slot = 's', get = 'g', put = 'p' };
using ConnectionKey = std::array<int, 4>;                // sender, receiver, channel, tag
using Ways = std::map<ConnectionKey, std::vector<Way>>;  // of each connection's messages, in order

ConnectionKey keyOf(const Program& program, const ConnectionSpec& spec) {
  return {spec.sends ? program.rank : spec.peer, spec.sends ? spec.peer : program.rank, spec.channel, spec.tag};
}

/// All ranks' interpreters in one thread, among rings but without data: buffers are addresses only.
class Delivered {
 public:
  Delivered(const algorithms::Algorithm& algorithm, int ranks, size_t elements, bool registered, bool reads)
      : registered_(registered), reads_(reads) {
    for (int rank = 0; rank < ranks; ++rank) {
      PlanContext context;
      context.rank = rank;
      context.ranks = ranks;
      context.placement = std::make_shared<const Placement>(Placement::oneHost(ranks, ranks));
      context.ring = kShape;
      context.selection.forced[static_cast<size_t>(algorithm.collective)] = &algorithm;
      Call call;
      call.collective = algorithm.collective;
      call.count = elements;
      auto plan = Planner(context).plan(call);
      EXPECT_TRUE(plan.ok()) << plan.status().message();
      ranks_.push_back(std::make_unique<Rank>(*plan));
    }
    for (auto& rank : ranks_) connect(*rank);
  }

  std::vector<Program> programs() const {
    std::vector<Program> all;
    for (auto& rank : ranks_) all.push_back(*rank->plan->program);
    return all;
  }
  uint64_t tiles() const { return ranks_[0]->plan->view.tiles; }
  /// Messages that were to be written into their slots past the caches: all long ones.
  int streamed() const { return streamed_; }
  int claimed() const { return claimed_; }

  /// How the messages went; empty if the lanes did not come to an end.
  Ways run() {
    for (bool progress = true; progress;) {
      progress = false;
      uint64_t behind = UINT64_MAX;  // nobody gets tiles ahead of those who are to make offers
      forLanes([&](Rank& rank, int32_t lane) {
        LaneState& state = rank.lanes[static_cast<size_t>(lane)];
        if (state.step == 0 && !state.entered) interpreter::post(rank.view, lane, state);
        if (!state.finished) behind = std::min(behind, state.tile);
      });
      forLanes([&](Rank& rank, int32_t lane) {
        if (rank.lanes[static_cast<size_t>(lane)].tile == behind) progress |= advance(rank, lane);
      });
    }
    for (auto& rank : ranks_)
      for (const LaneState& lane : rank->lanes)
        if (!lane.finished) return {};
    return ways_;
  }

 private:
  struct Rank {
    explicit Rank(std::shared_ptr<Plan> its)
        : plan(std::move(its)),
          lanes(plan->program->lanes.size()),
          sends(plan->program->connections.size()),
          receives(sends.size()) {
      view.plan = &plan->view;
      view.lanes = lanes.data();
      for (int space = 0; space < kMemorySpaces; ++space)  // none is at the beginning: that is the null pointer
        view.buffers[space] = reinterpret_cast<std::byte*>((uintptr_t{1} + space) << 40);
      for (size_t c = 0; c < sends.size(); ++c) {
        senders.push_back(&sends[c]);
        receivers.push_back(&receives[c]);
      }
      plan->view.senders = senders.data();
      plan->view.receivers = receivers.data();
    }
    std::shared_ptr<Plan> plan;
    std::vector<LaneState> lanes;
    RunView view;
    std::vector<SendEnd> sends;
    std::vector<ReceiveEnd> receives;
    std::map<ConnectionKey, ExchangeAreas> areas;  // by this rank's ends that send
    std::vector<SendEnd*> senders;
    std::vector<ReceiveEnd*> receivers;
  };
  struct Memory {
    explicit Memory(size_t bytes) : bytes(new (std::align_val_t{kCacheLine}) std::byte[bytes]()) {}
    ~Memory() { operator delete[](bytes, std::align_val_t{kCacheLine}); }
    Memory(const Memory&) = delete;
    std::byte* const bytes;
  };
  /// An executor that does nothing at once, but to look which destinations are to be written past the caches,
  /// and which sources are to be claimed.
  struct Nothing {
    static constexpr bool kCompletesInSubmit = true;
    bool submit(int32_t, const MoveTask& task) {
      for (int d = 0; d < task.destinations; ++d) {
        const bool slot = inRings(task.destination[d]);
        slots += slot;
        streamed += (task.streamMask >> d & 1) != 0;
        EXPECT_TRUE(slot || (task.streamMask >> d & 1) == 0);
      }
      claimed |= task.claimMask;
      return true;
    }
    std::function<bool(const std::byte*)> inRings;
    int slots = 0, streamed = 0;
    uint8_t claimed = 0;
  };

  void connect(Rank& rank) {
    const Program& program = *rank.plan->program;
    for (size_t c = 0; c < program.connections.size(); ++c) {
      const ConnectionSpec& spec = program.connections[c];
      auto& memory = rings_[keyOf(program, spec)];
      if (memory == nullptr) {
        memory = std::make_unique<Memory>(kShape.bytes());
        formatRing(memory->bytes, kShape, 0);
      }
      // Areas never run out. They lie where the ring does.
      const ConnectionKey mine{rank.plan->program->rank, spec.peer, spec.channel, spec.tag};
      ExchangeAreas& areas = rank.areas[mine];
      areas.memory[spec.sends ? 0 : 1] = memory->bytes;
      fillUp(areas);
      const auto attach = [&](auto& end) {
        end.exchange = &areas;
        attachRing(end, memory->bytes, kShape, 0, 0);
        end.directFrom = kDirectFrom;
        if (registered_) end.mine = end.theirs = kOwnAddressSpace;
        end.control->receiverWants[0].streamed = ~0u;
        if (reads_) end.control->receiverWants[static_cast<int>(MessageKind::shown)].read = ~0u;
      };
      rank.sends[c].mayStream = true;
      rank.receives[c].claiming = true;
      spec.sends ? attach(rank.sends[c]) : attach(rank.receives[c]);
    }
  }

  static void fillUp(ExchangeAreas& areas) {
    for (uint8_t area = 0; area < ExchangeAreas::kAll; ++area) areas.owned[area] = area;
    areas.count = ExchangeAreas::kAll;
  }
  template <class Visit>
  void forLanes(Visit&& visit) {
    for (auto& rank : ranks_)
      for (size_t lane = 0; lane < rank->lanes.size(); ++lane) visit(*rank, static_cast<int32_t>(lane));
  }

  /// One move, if it can be made: a rank is never found waiting for a message, for which it would make an
  /// offer.
  bool advance(Rank& rank, int32_t lane) {
    LaneState& state = rank.lanes[static_cast<size_t>(lane)];
    if (state.finished) return false;
    bool waits = false;
    interpreter::forAwaited(rank.view, lane, [&](int32_t) { waits = true; });
    if (waits) return false;
    std::vector<uint64_t> before, taken;
    for (const SendEnd& end : rank.sends) before.push_back(end.next);
    for (const ReceiveEnd& end : rank.receives) taken.push_back(end.next);
    Nothing executor;
    executor.inRings = [&](const std::byte* at) {
      for (const auto& [key, memory] : rings_)
        if (at >= memory->bytes && at < memory->bytes + kShape.bytes()) return true;
      return false;
    };
    for (auto& [key, areas] : rank.areas) fillUp(areas);
    const LaneAnswer answer = eccl::advance(rank.view, lane, 1, executor);
    EXPECT_NE(answer, LaneAnswer::failed) << static_cast<int>(state.fault);
    int claims = 0;
    for (size_t c = 0; c < taken.size(); ++c) {
      for (uint64_t message = taken[c]; message < rank.receives[c].next; ++message) {
        const Slot& slot = *rank.receives[c].slot(message);
        claims += slot.length > kInlineBytes && (slot.flags & (kSlotGet | kSlotPut | kSlotStreamed)) == 0 &&
                  !rank.receives[c].isExchanged(slot);
      }
    }
    EXPECT_EQ(std::popcount(executor.claimed), claims);
    claimed_ += claims;
    const Program& program = *rank.plan->program;
    for (size_t c = 0; c < before.size(); ++c) {
      for (uint64_t message = before[c]; message < rank.sends[c].next; ++message) {
        const Slot& slot = *rank.sends[c].slot(message);
        const uint16_t flags = slot.flags;
        const bool streams = slot.length >= kStreamFrom && (flags & (kSlotGet | kSlotPut)) == 0;
        EXPECT_EQ((flags & kSlotStreamed) != 0, streams);
        EXPECT_TRUE(executor.streamed == executor.slots || !streams);
        streamed_ += streams;
        ways_[keyOf(program, program.connections[c])].push_back((flags & kSlotGet) != 0   ? Way::get
                                                                : (flags & kSlotPut) != 0 ? Way::put
                                                                                          : Way::slot);
      }
    }
    return answer == LaneAnswer::progress || state.finished;
  }

  const bool registered_, reads_;  // reads_: what receivers can read they want to
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<ConnectionKey, std::unique_ptr<Memory>> rings_;
  Ways ways_;
  int streamed_ = 0, claimed_ = 0;
};

/// The simulator's clocks, which write down how they take messages to go.
class Simulated : public algorithms::simulation::Clocks<algorithms::simulation::Time> {
 public:
  using Clocks::Clocks;
  const char* execute(const algorithms::Move<Payload>& move) {
    const char* wrong = Clocks::execute(move);
    for (const auto& term : move.destinations()) {
      if (term.message == nullptr) continue;
      const Program& program = *programOf(move.lane);
      const Mode mode = term.message->payload.mode;
      ways[keyOf(program, program.connections[static_cast<size_t>(term.operand->index.at(move.repeat))])]
          .push_back(mode == Mode::get   ? Way::get
                     : mode == Mode::put ? Way::put
                                         : Way::slot);
    }
    return wrong;
  }
  const Program* programOf(int lane) const { return &(*all)[static_cast<size_t>(rankOf(lane))]; }
  const std::vector<Program>* all = nullptr;
  Ways ways;
};

Ways simulated(const std::vector<Program>& programs, size_t elements, bool registered, bool reads) {
  auto parameters = algorithms::CostParameters::defaults();
  for (int level = 0; level < algorithms::kMemoryLevels; ++level) {
    const auto of = [level](algorithms::CostTerm first) { return algorithms::atLevel(first, level); };
    parameters[of(algorithms::CostTerm::fetch)] = parameters[of(algorithms::CostTerm::read)];
    parameters[of(algorithms::CostTerm::store)] =
        parameters[of(algorithms::CostTerm::write)] * (reads ? 2 : 0.5);
  }
  const auto placement = Placement::oneHost(static_cast<int>(programs.size()), 64);
  algorithms::CallSize size;
  size.elements = elements;
  size.elementBytes = 4;
  size.slotBytes = kShape.slotBytes;
  size.slots = kShape.slots;
  size.registered = registered;
  const Partition partition = partitionFor(programs[0], elements, size.elementBytes, size.slotBytes);
  Simulated clocks(programs, size, placement, partition, parameters);
  clocks.all = &programs;
  clocks.begin(0, HUGE_VAL);  // no move is put off
  algorithms::ExecutionSize machineSize;
  machineSize.tiles = static_cast<int>(partition.tiles(elements));
  machineSize.slots = size.slots;
  machineSize.empty = [&](int, int part, int tile) {
    return partition.slice(elements, part, static_cast<uint64_t>(tile)).size() == 0;
  };
  algorithms::AbstractExecutor<Simulated> machine(programs, clocks, machineSize);
  EXPECT_EQ(machine.runFair(), "");
  return clocks.ways;
}

std::string textOf(const Ways& ways) {
  std::string text;
  for (const auto& [key, its] : ways) {
    text += format("%d to %d (channel %d, tag %d): ", key[0], key[1], key[2], key[3]);
    for (Way way : its) text += static_cast<char>(way);
    text += "\n";
  }
  return text;
}

TEST(DeliveryAgreement, OfEveryAlgorithmBetweenInterpreterAndSimulator) {
  std::map<Way, int> seen;
  int streamed = 0, claimed = 0;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    for (int ranks : {2, 3, 4, 5, 8}) {
      const auto programs = algorithms::buildAll(algorithm, {algorithm.collective, ranks, 0}, 1);
      Call call;
      call.collective = algorithm.collective;
      if (programs[0].streams || call.varies() || call.collective == Collective::barrier) continue;
      // Parts of equal length: an empty one would let a lane run into its next wait.
      const size_t grain = static_cast<size_t>(programs[0].parts) * kCacheLine / 4;
      for (size_t times : {1, 7, 16, 64, 900}) {
        for (const auto& [registered, reads] : {std::pair(true, true), {true, false}, {false, false}}) {
          Delivered execution(algorithm, ranks, grain * times, registered, reads);
          const Ways interpreted = execution.run();
          ASSERT_FALSE(interpreted.empty()) << nameOf(algorithm.collective) << " " << algorithm.name;
          EXPECT_EQ(textOf(interpreted),
                    textOf(simulated(execution.programs(), grain * times, registered, reads)))
              << nameOf(algorithm.collective) << " " << algorithm.name << " of " << grain * times
              << " elements in " << execution.tiles() << " tiles among " << ranks << " ranks, "
              << (!registered ? "not registered"
                  : reads     ? "registered, read"
                              : "registered, written");
          for (const auto& [key, its] : interpreted)
            for (Way way : its) ++seen[way];
          streamed += execution.streamed();
          claimed += execution.claimed();
        }
      }
    }
  }
  for (Way way : {Way::slot, Way::get, Way::put}) EXPECT_GT(seen[way], 100) << static_cast<char>(way);
  EXPECT_GT(streamed, 100);
  EXPECT_GT(claimed, 100);
}

}  // namespace
}  // namespace eccl::runtime
