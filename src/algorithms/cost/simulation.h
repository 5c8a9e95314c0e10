// The Domain of a simulation: what a move does to clocks. Only simulate.cc needs it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "algorithms/cost/critical_path.h"
#include "algorithms/cost/ports.h"
#include "algorithms/cost/simulate.h"
#include "algorithms/cost/takers.h"
#include "algorithms/verify/abstract_executor.h"
#include "program/way_choice.h"

namespace eccl::algorithms::simulation {

inline constexpr double kMB = 1e6;

/// The Domain of an AbstractExecutor (algorithms/verify/abstract_executor.h) whose data is time. `Moment`:
/// Time, or CriticalPath. simulate.cc drives it: begin() before each step of the executor; putOff() and
/// execute() are called by that. What is passed to the constructor outlives this. One thread.
template <class Moment>
class Clocks {
 public:
  /// How a message goes: as program/delivery.h says (slot stands for inlined too), or sent to another host.
  enum class Mode : uint8_t { slot, get, put, sent };
  /// What a message carries: when the receiver can have it, and when its slot is free again.
  struct Payload {
    Moment ready, freed;
    Mode mode = Mode::slot;
  };
  struct Core {
    Moment free;
    int rank = -1;  // that used it last
  };

  Clocks(const std::vector<Program>& programs, const CallSize& size, const Placement& placement,
         const Partition& partition, const CostParameters& parameters)
      : programs_(programs),
        size_(size),
        placement_(placement),
        partition_(partition),
        parameters_(parameters),
        brief_(partition.tiles(size.elements) <= 1 && mostPolled(programs, placement) <= kMaxPolled),
        takers_(programs),
        levels_(placement.cores.size()),
        wants_(placement.cores.size()),
        ports_(placement, parameters) {
    Moment begun;
    begun.add(parameters_, brief_ ? CostTerm::fastCall : CostTerm::call, 1);
    begun_ = begun;
    ends_.assign(programs.size(), begun);
    for (const Program& program : programs) {
      for (const Lane& lane : program.lanes) {
        lanes_.push_back({&program, begun, std::vector<Finish>(static_cast<size_t>(lane.steps))});
      }
    }
    provideCores();
    findLevels();
  }

  int rankOf(int lane) const { return lanes_[static_cast<size_t>(lane)].program->rank; }
  double clockOf(int lane) const { return lanes_[static_cast<size_t>(lane)].clock.at; }
  /// The ranks for whom the last move may have mattered.
  const std::vector<int>& concerned() const { return concerned_; }
  /// A lane of the rank is about to be advanced.
  void begin(int rank, double now) {
    now_ = now;
    concerned_.assign(1, rank);
  }
  /// When a move that was put off can begin, and when it can but for its core.
  double later() const { return later_; }
  double ready() const { return begin_.at; }
  /// Whether the core of that move was not used by this rank last.
  bool handsOver(int rank) const { return core_->rank != rank; }
  /// Whether the move begins later than now.
  bool putOff(const Move<Payload>& move) {
    begin_ = lanes_[static_cast<size_t>(move.lane)].clock;
    for (const auto& term : move.sources())
      if (term.message != nullptr) begin_.notBefore(term.message->payload.ready);
    for (const auto& term : move.destinations())
      if (term.message != nullptr) begin_.notBefore(term.message->payload.freed);
    later_ = beginning(move.rank, now_, begin_.at);
    return later_ > now_;
  }
  /// When a move can begin whose messages and slots are ready at `ready`, as far as is known at `now`.
  /// Chooses its core.
  double beginning(int rank, double now, double ready) {
    now_ = now;
    core_ = &coreFor(rank);
    return std::max(ready, core_->free.at);
  }

  /// Moves the clocks by what a move costs. Never fails: nullptr.
  const char* execute(const Move<Payload>& move) {
    const double bytes = bytesOf(move), megabytes = bytes / kMB;
    Moment clock = begin_;
    clock.notBefore(core_->free);
    if (core_->rank != move.rank && core_->rank >= 0) clock.add(parameters_, CostTerm::handOver, 1);
    clock.add(parameters_, brief_ ? CostTerm::fastMove : CostTerm::move, 1);
    const auto& weights = levels_[static_cast<size_t>(placement_.machine[static_cast<size_t>(move.rank)])];
    auto touch = [&](CostTerm first) {
      for (int level = 0; level < kMemoryLevels; ++level) {
        if (weights[static_cast<size_t>(level)] > 0)
          clock.add(parameters_, atLevel(first, level), megabytes * weights[static_cast<size_t>(level)]);
      }
    };
    bool arrived = false;  // a message is where it belongs already
    for (const auto& term : move.sources())
      arrived |= term.message != nullptr && term.message->payload.mode == Mode::put;
    int written = 0;
    bool lends = false;
    for (const auto& term : move.destinations()) {
      if (term.message != nullptr) {
        Payload& payload = term.message->payload;
        payload.mode = modeOf(move, *term.operand, bytes);
        switch (payload.mode) {
          case Mode::get:
            lends = true;
            continue;
          case Mode::put:
            touch(CostTerm::store);
            break;
          case Mode::slot:
            clock.add(parameters_, CostTerm::slotWrite, megabytes);
            break;
          case Mode::sent:
            continue;  // below; what reads the source is the system call
        }
      } else if (arrived && written == 0) {
        arrived = false;
        continue;
      } else if (size_.inPlace && copiesInput(move)) {
        continue;
      } else {
        touch(CostTerm::write);
      }
      ++written;
    }
    // The next call writes there as slowly as to lines of the rank that has read them.
    if (lends && isLentFirst(move)) touch(CostTerm::store);
    for (const auto& term : move.sources()) {
      if (term.message == nullptr) {
        if (written > 0) touch(CostTerm::read);
        continue;
      }
      switch (term.message->payload.mode) {
        case Mode::put:
          if (written > 0) touch(CostTerm::read);
          break;
        case Mode::get:
          if (written > 0) touch(CostTerm::fetch);
          break;
        case Mode::slot:
          clock.add(parameters_, CostTerm::slotRead, megabytes);
          break;
        case Mode::sent: {
          const int peer = peerOf(move, *term.operand);
          clock.add(parameters_, ports_.term(CostTerm::networkReceive, move.rank, peer), 1);
          clock.add(parameters_, ports_.term(CostTerm::networkReceiveBytes, move.rank, peer), megabytes);
          break;
        }
      }
    }
    if (const size_t sources = move.sources().size(); sources > 1)
      clock.add(parameters_, CostTerm::combine, megabytes * static_cast<double>(sources - 1));
    for (const auto& term : move.destinations()) {
      if (term.message == nullptr || term.message->payload.mode != Mode::sent) continue;
      const int peer = peerOf(move, *term.operand);
      clock.add(parameters_, ports_.term(CostTerm::networkSend, move.rank, peer), 1);
      term.message->payload.ready = clock;  // its first bytes leave
      clock.add(parameters_, ports_.term(CostTerm::networkSendBytes, move.rank, peer), megabytes);
    }
    conclude(move, clock, megabytes);
    return nullptr;
  }

  /// A lane has waited for a step of another one: it goes on no earlier than that step ended.
  void waited(const LaneWait& wait) {
    const Finish& finish = lanes_[static_cast<size_t>(wait.onLane)].finishes[static_cast<size_t>(wait.onStep)];
    if (finish.tile == wait.onTile) lanes_[static_cast<size_t>(wait.lane)].clock.notBefore(finish.at);
  }

  /// When the last rank has finished.
  Moment end() const {
    return *std::max_element(ends_.begin(), ends_.end(),
                             [](const Moment& a, const Moment& b) { return a.at < b.at; });
  }

 private:
  struct Finish {
    int tile = -1;
    Moment at;
  };
  /// Whether receivers would rather read a message than have it written: one that goes to them alone, or one of
  /// which the sender also keeps a copy.
  struct Wants {
    bool reads = false, readsBesideCopy = false;
  };
  struct LaneClock {
    const Program* program;
    Moment clock;
    std::vector<Finish> finishes;      // by step, of the last tile
    std::pair<int, int> lent{-1, -1};  // step and tile of which a source was read last
  };

  /// Connections from ranks that share no memory with it, of the rank that has the most.
  static ptrdiff_t mostPolled(const std::vector<Program>& programs, const Placement& placement) {
    ptrdiff_t most = 0;
    for (const Program& program : programs) {
      most = std::max(most, std::ranges::count_if(program.connections, [&](const ConnectionSpec& spec) {
                        const auto rank = static_cast<size_t>(program.rank),
                                   peer = static_cast<size_t>(spec.peer);
                        return !spec.sends && placement.memory[rank] != placement.memory[peer];
                      }));
    }
    return most;
  }
  /// Ranks that have cores enough each get their own; oversubscribed ones share them.
  void provideCores() {
    firstCore_.resize(placement_.cores.size());
    coresOf_.resize(placement_.cores.size());
    for (size_t machine = 0; machine < placement_.cores.size(); ++machine) {
      const long cores = std::max(1L, std::lround(placement_.cores[machine]));
      firstCore_[machine] = cores_.size();
      coresOf_[machine] =
          static_cast<size_t>(std::min<long>(placement_.ranksOf(static_cast<int>(machine)), cores));
      cores_.resize(cores_.size() + coresOf_[machine]);
    }
    ownCore_.assign(programs_.size(), -1);
    std::vector<size_t> taken(placement_.cores.size());
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      const auto machine = static_cast<size_t>(placement_.machine[rank]);
      if (static_cast<size_t>(placement_.ranksOf(placement_.machine[rank])) <= coresOf_[machine])
        ownCore_[rank] = static_cast<int>(firstCore_[machine] + taken[machine]++);
    }
    for (Core& core : cores_) core.free = begun_;
  }
  Core& coreFor(int rank) {
    if (const int own = ownCore_[static_cast<size_t>(rank)]; own >= 0) return cores_[static_cast<size_t>(own)];
    const auto machine = static_cast<size_t>(placement_.machine[static_cast<size_t>(rank)]);
    Core* best = nullptr;
    for (size_t i = 0; i < coresOf_[machine]; ++i) {
      Core& core = cores_[firstCore_[machine] + i];
      if (core.rank == rank && core.free.at <= now_) return core;
      if (best == nullptr || core.free.at < best->free.at) best = &core;
    }
    return *best;
  }

  /// From what the ranks of each machine touch, per core.
  void findLevels() {
    std::vector<double> blocks(placement_.cores.size());
    for (size_t rank = 0; rank < programs_.size(); ++rank) {
      blocks[static_cast<size_t>(placement_.machine[rank])] +=
          programs_[rank].map(Space::input).number + programs_[rank].map(Space::output).number;
    }
    for (size_t machine = 0; machine < blocks.size(); ++machine) {
      levels_[machine] = levelsOf(blocks[machine] * static_cast<double>(size_.elements) * size_.elementBytes /
                                  static_cast<double>(std::max<size_t>(coresOf_[machine], 1)));
      wants_[machine] = wantsOn(machine);
    }
  }
  /// Receivers have found out what takes less (program/way_choice.h). Where the sender keeps a copy it reads
  /// the source in any case. Of a rank that shares its core the reader would have to wait for its turn.
  Wants wantsOn(size_t machine) const {
    if (!size_.registered || partition_.tiles(size_.elements) > kMostChosen ||
        placement_.oversubscribed(static_cast<int>(machine)))
      return {};
    const auto takes = [&](CostTerm first) {
      double sum = 0;
      for (int level = 0; level < kMemoryLevels; ++level)
        sum += levels_[machine][static_cast<size_t>(level)] * parameters_[atLevel(first, level)];
      return sum;
    };
    const double reading = takes(CostTerm::fetch) + takes(CostTerm::write), storing = takes(CostTerm::store);
    return {reading < storing + takes(CostTerm::read), reading < storing};
  }

  double bytesOf(const Label& label) const {
    uint64_t elements = 0;
    for (int32_t part = label.part; part < label.part + label.count; ++part)
      elements += partition_.slice(size_.elements, part, static_cast<uint64_t>(label.tile)).size();
    return static_cast<double>(elements * size_.elementBytes);
  }

  int peerOf(const Move<Payload>& move, const Operand& operand) const {
    return programs_[static_cast<size_t>(move.rank)]
        .connections[static_cast<size_t>(operand.index.at(move.repeat))]
        .peer;
  }

  /// Whether a rank reads what this program writes, and none has read it in this step before. Calls in place
  /// write to the input, too, which is left out.
  bool isLentFirst(const Move<Payload>& move) {
    const Operand& source = *move.terms[0].operand;
    LaneClock& lane = lanes_[static_cast<size_t>(move.lane)];
    const bool same = source.index.stride == 0 && source.part.stride == 0;
    const std::pair<int, int> its{move.stepInLane, move.tile};
    if (source.space == Space::input || (same && lane.lent == its)) return false;
    lane.lent = its;
    return true;
  }
  static bool copiesInput(const Move<Payload>& move) {
    return move.sources().size() == 1 && move.sources()[0].message == nullptr &&
           move.sources()[0].operand->space == Space::input;
  }

  /// How the message goes. Receivers make those offers in time that they can make ahead, and no others.
  Mode modeOf(const Move<Payload>& move, const Operand& operand, double bytes) const {
    const auto rank = static_cast<size_t>(move.rank), peer = static_cast<size_t>(peerOf(move, operand));
    if (placement_.memory[rank] != placement_.memory[peer]) return Mode::sent;
    const std::vector<Operand>& operands = programs_[rank].operands;
    const auto whole = [&](bool scratch) { return partition_.adjoin(size_.elements, move.count, scratch); };
    const Outgoing message{static_cast<uint32_t>(bytes),
                           whole(usesScratch(programs_[rank], *move.step)),
                           move.terms[0].operand->stable,
                           false,
                           operand.placed,
                           operand.pushed};
    const Taker& taker = takers_.of(move.rank, &operand - operands.data(), move.repeat);
    Incoming taken = taker.message;
    taken.length = message.length;
    taken.whole = whole(taker.scratch);
    const auto machine = static_cast<size_t>(placement_.machine[rank]);
    const uint32_t usual =
        placement_.oversubscribed(static_cast<int>(machine)) ? kOversubscribedDirectFrom : kDirectFrom;
    const uint32_t directFrom = taker.answers ? kDirectFromExchanged : usual;
    const bool offered = offerOf(taken, {directFrom, size_.registered}) == Offer::ahead;
    const Wants& wants = wants_[machine];
    const SendState end{directFrom, offered ? Offered::memory : Offered::no, size_.registered,
                        move.destinations().size() > 1 ? wants.readsBesideCopy : wants.reads};
    switch (deliveryOf(message, end)) {
      case Delivery::get:
        return Mode::get;
      case Delivery::put:
        return Mode::put;
      default:
        return Mode::slot;
    }
  }

  void conclude(const Move<Payload>& move, const Moment& clock, double megabytes) {
    core_->free = clock;
    core_->rank = move.rank;
    LaneClock& lane = lanes_[static_cast<size_t>(move.lane)];
    lane.clock = clock;
    lane.finishes[static_cast<size_t>(move.stepInLane)] = {move.tile, clock};
    ends_[static_cast<size_t>(move.rank)].notBefore(clock);
    for (const auto& term : move.destinations()) {
      if (term.message == nullptr) continue;
      const int peer = peerOf(move, *term.operand);
      concerned_.push_back(peer);
      Payload& payload = term.message->payload;
      if (payload.mode == Mode::sent) {
        payload.ready = ports_.arrivalOf(move.rank, peer, megabytes, payload.ready, clock);
      } else {
        payload.ready = clock;
        payload.ready.add(parameters_, CostTerm::notice, 1);
      }
    }
    for (const auto& term : move.sources()) {
      if (term.message == nullptr) continue;
      const int peer = peerOf(move, *term.operand);
      concerned_.push_back(peer);
      Payload& payload = term.message->payload;
      payload.freed = clock;
      payload.freed.add(parameters_,
                        payload.mode == Mode::sent ? ports_.term(CostTerm::networkLatency, move.rank, peer)
                                                   : CostTerm::notice,
                        1);
      if (payload.mode == Mode::get) ends_[static_cast<size_t>(peer)].notBefore(payload.freed);
    }
  }

  const std::vector<Program>& programs_;
  const CallSize& size_;
  const Placement& placement_;
  const Partition& partition_;
  const CostParameters& parameters_;
  const bool brief_;  // on the fast path
  const Takers takers_;
  Moment begun_;
  std::vector<LaneClock> lanes_;
  std::vector<std::array<double, kMemoryLevels>> levels_;  // by machine
  std::vector<Wants> wants_;                               // by machine
  std::vector<Core> cores_;
  std::vector<size_t> firstCore_, coresOf_;  // by machine
  std::vector<int> ownCore_;                 // by rank, -1: shared
  Ports<Moment> ports_;
  std::vector<Moment> ends_;  // by rank
  std::vector<int> concerned_;
  double now_ = 0, later_ = 0;
  Moment begin_;  // of the move under way
  Core* core_ = nullptr;
};

}  // namespace eccl::algorithms::simulation
