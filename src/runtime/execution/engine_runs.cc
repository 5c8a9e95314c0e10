// The engine's work on Runs: how they begin, and how their lanes advance.

#include <algorithm>
#include <string>
#include <utility>

#include "base/log.h"
#include "program/interpreter.h"
#include "runtime/execution/engine.h"
#include "transport/connect/rank_transports.h"

namespace eccl::runtime {
namespace {

/// Moves of one lane before the next lane gets its turn.
constexpr int kBudget = 16;

/// What this rank knows of the peer at one of the program's connections, whose poison word is set.
transport::Breakage whyPoisoned(const Run& run, int connection) {
  const transport::Breakage itsWord("it has failed or aborted");
  if (run.carried) return itsWord;  // its connections are its executor's
  const transport::Connection& failed = *run.plan->connections[static_cast<size_t>(connection)];
  return failed.failure().ok() ? itsWord : failed.breakage();
}

}  // namespace

// In the order of the calls, the same on all ranks: from here on the Run has its place at its connections.
void Engine::admit(Run& run) {
  run.tickets.clear();
  if (run.carried) {
    run.phases.assign(1, Run::LanePhase::waiting);
    run.incomplete = 1;
    return;
  }
  run.plan->bind(*connector_);
  const size_t lanes = run.plan->program->lanes.size();
  run.phases.assign(lanes, Run::LanePhase::waiting);
  run.incomplete = lanes;
  run.drains.assign(run.plan->connections.size(), 0);
  run.firsts.assign(run.plan->connections.size(), 0);
  for (transport::Connection* connection : run.plan->connections)
    run.tickets.push_back(connection->takeTicket());
}

void Run::decide() {
  view.plan = &plan->view;
  view.signature = record.signature;
  number = record.sequence;
  program = plan->program.get();
  type = call.type;
  op = call.op > RedOp::min ? RedOp::sum : call.op;
  const int ranks = program->ranks;
  if (call.op == RedOp::preMulSum) pre = call.preMul.scale();
  if (call.op == RedOp::avg && isFloating(call.type)) pre = kernels::Scale::multiplyBy(1.0 / ranks);
  view.scales = pre.kind != kernels::Scale::Kind::none;
  if (call.op == RedOp::avg && !isFloating(call.type)) post = kernels::Scale::divideBy(ranks);
  laneCount = program->lanes.size();
  footprint = plan->footprint;
  kept = &plan->kept;
}

Status Engine::begin(Run& run) {
  const Plan& plan = *run.plan;
  const Program& program = *plan.program;
  run.decide();
  run.moved = true;
  run.lanes.assign(program.lanes.size(), LaneState{});
  run.view.lanes = run.lanes.data();
  if (run.carried) return run.executor->begin(run);
  // A barrier's bytes are nobody's.
  const bool barrier = program.collective == Collective::barrier;
  const size_t own = barrier ? static_cast<size_t>(program.ranks) + 1 : 0;
  ECCL_TRY(run.scratch.provide(*run.executor, plan.scratchBytes + own));
  run.relayed.assign(plan.relayFlags, 0);
  std::byte** buffers = run.view.buffers;
  buffers[static_cast<int>(Space::input)] = static_cast<std::byte*>(const_cast<void*>(run.call.send));
  buffers[static_cast<int>(Space::output)] = static_cast<std::byte*>(run.call.receive);
  buffers[static_cast<int>(Space::scratch)] = run.scratch.data();
  if (barrier) {
    buffers[static_cast<int>(Space::input)] = run.scratch.data() + plan.scratchBytes;
    buffers[static_cast<int>(Space::output)] = run.scratch.data() + plan.scratchBytes + 1;
  }
  run.view.relayed = run.relayed.data();
  run.view.relayedAt = plan.relayedAt.data();
  run.view.patient = true;
  run.view.readyTiles = UINT64_MAX;
  run.cacheShare = cacheShare_;
  ECCL_TRY(run.executor->begin(run));
  if (connector_->transports().usesMemory()) useMemory(run);
  return {};
}

// All that messages may be sent from or received into, as far as it is the caller's or the executor's own. The
// longest first: a part of what is used already, for no less, needs nothing of its own.
void Engine::useMemory(Run& run) {
  using namespace transport;
  struct Used {
    MemoryRange memory;
    MemoryFor what;
    MemoryKind kind;
    bool covers(const Used& other) const {
      return memory.contains(other.memory.base, other.memory.bytes) && serves(what, other.what);
    }
  };
  // Peers that look at this memory need no device for it.
  if (std::ranges::all_of(run.plan->connections, [](const Connection* connection) {
        return connection->path() != nullptr && connection->path()->inMemory();
      }))
    return;
  std::vector<Used> all;
  for (int space = 0; space < kMemorySpaces; ++space) {
    const Plan::Bytes bytes = run.plan->used[space];
    if (bytes.end <= bytes.begin) continue;
    Used used{{run.view.buffers[space] + bytes.begin, bytes.end - bytes.begin},
              bytes.posted ? MemoryFor::receiving : MemoryFor::sending,
              MemoryKind::plain};
    for (const std::span<std::byte> own : run.own) {
      const MemoryRange whole{own.data(), own.size()};  // to find it again, whichever part a call uses
      if (whole.contains(used.memory.base, used.memory.bytes))
        used.memory = whole, used.kind = MemoryKind::kept;
    }
    if (used.kind == MemoryKind::kept || run.executor == &executors_.host()) all.push_back(used);
  }
  std::sort(all.begin(), all.end(), [](const Used& a, const Used& b) {
    return std::pair(a.memory.bytes, a.what) > std::pair(b.memory.bytes, b.what);
  });
  for (auto it = all.begin(); it != all.end(); ++it) {
    if (std::none_of(all.begin(), it, [&](const Used& other) { return other.covers(*it); }))
      connector_->transports().useMemory(it->memory, it->what, it->kind, -1, &run.uses);
  }
}

// The call itself is over: it has taken its place in the order of calls, and needs no connection for that.
void Engine::keepCaptured(const std::shared_ptr<Run>& run) {
  if (!run->carried) {
    run->plan = run->plan->inGraphs();
    run->decide();
    ++replayed_;
  }
  run->lanes.assign(std::max<size_t>(1, run->program->lanes.size()), LaneState{});  // the first: for faults
  run->view.lanes = run->lanes.data();
  run->moved = true;
  captured_.push_back(run);
  complete(*run, {});
}

void Engine::startLane(Run& run, int lane) {
  if (run.carried) {
    run.phases[static_cast<size_t>(lane)] = Run::LanePhase::running;
    return;
  }
  for (int c : run.plan->laneConnections[static_cast<size_t>(lane)]) {
    transport::Connection& connection = *run.plan->connections[static_cast<size_t>(c)];
    // A failed connection may have a path: the lane takes what the peer left there, and fails if it needs more.
    if (connection.path() == nullptr) {
      if (connection.state() == transport::Connection::State::failed)
        handler_.onPeerFailed(run, connection.peer(), connection.breakage());
      return;
    }
    if (!connection.serves(run.tickets[static_cast<size_t>(c)])) return;
    if (connection.sends()) run.firsts[static_cast<size_t>(c)] = connection.sendEnd.next;
  }
  limitAhead(run, lane, run.plan->mostAhead);
  run.phases[static_cast<size_t>(lane)] = Run::LanePhase::running;
  interpreter::post(run.view, lane, run.lanes[static_cast<size_t>(lane)]);
}

// Its executor looks after all lanes and connections.
bool Engine::advanceCarried(Run& run) {
  const LaneAnswer answer = run.executor->advance(run, 0, kBudget);
  if (answer == LaneAnswer::failed) laneFailed(run, 0);
  if (answer == LaneAnswer::done) {
    run.phases[0] = Run::LanePhase::complete;
    --run.incomplete;
  }
  return answer != LaneAnswer::blocked;
}

// Those of carried Runs. What moves with a rank is the progress of the Runs that have messages with it.
bool Engine::relayMessages() {
  const auto moved = [this](int rank) {
    for (auto& run : active_) {
      const auto& connections = run->program->connections;
      run->moved |=
          run->carried && std::ranges::any_of(connections, [&](const auto& its) { return its.peer == rank; });
    }
  };
  const Result<bool> relayed = executors_.device()->relay(draining_, moved);
  if (relayed.ok()) return *relayed;
  if (draining_) {
    ECCL_WARN("what was sent is lost: %s", relayed.status().message().c_str());
  } else if (relayed.status().code() == Code::remote) {
    messagesLost_ = relayed.status();
    handler_.onMessagesLost(messagesLost_);
  } else {
    handler_.onDriverFailed(relayed.status());
  }
  return true;
}

bool Engine::advanceLane(Run& run, int lane) {
  if (run.carried) return advanceCarried(run);
  auto& phase = run.phases[static_cast<size_t>(lane)];
  const auto& connections = run.plan->laneConnections[static_cast<size_t>(lane)];
  bool moved = false;
  if (phase == Run::LanePhase::running) {
    const LaneAnswer answer = run.executor->advance(run, lane, kBudget);
    if (answer != LaneAnswer::blocked) {
      for (int c : connections) run.plan->connections[static_cast<size_t>(c)]->path()->kick();
    }
    if (answer == LaneAnswer::failed) {
      laneFailed(run, lane);
      return true;
    }
    moved = moved || answer == LaneAnswer::progress;
    if (answer == LaneAnswer::done) {
      finishMoves(run, lane);
      phase = Run::LanePhase::draining;
      moved = true;
    }
  }
  if (phase == Run::LanePhase::draining) {
    for (int c : connections) {
      transport::Connection& connection = *run.plan->connections[static_cast<size_t>(c)];
      if (!connection.sends() || connection.sendEnd.released(run.drains[static_cast<size_t>(c)])) continue;
      if (connection.sendEnd.poisoned()) { handler_.onPeerFailed(run, connection.peer(), whyPoisoned(run, c)); }
      return moved;
    }
    phase = Run::LanePhase::complete;
    --run.incomplete;
    moved = true;
  }
  return moved;
}

// What is no limit is not told: most Runs have none.
void Engine::limitAhead(Run& run, int lane, uint32_t messages) {
  if (run.plan->mostAhead == UINT32_MAX) return;
  for (int c : run.plan->laneConnections[static_cast<size_t>(lane)]) {
    transport::Connection& connection = *run.plan->connections[static_cast<size_t>(c)];
    if (connection.sends()) connection.path()->limitAhead(messages);
  }
}

// The next Run may use the connections, even while the receivers still read what this one's messages refer to.
void Engine::finishMoves(Run& run, int lane) {
  limitAhead(run, lane, UINT32_MAX);
  for (int c : run.plan->laneConnections[static_cast<size_t>(lane)]) {
    transport::Connection& connection = *run.plan->connections[static_cast<size_t>(c)];
    SendEnd& end = connection.sendEnd;
    if (!connection.sends())
      connection.path()->settle();  // the sender may be waiting for the last credits
    else
      run.drains[static_cast<size_t>(c)] = end.anyGet ? end.lastGet : end.releasedSeen;
    connection.finishTicket();
  }
}

void Engine::laneFailed(Run& run, int lane) {
  const LaneState& state = run.lanes[static_cast<size_t>(lane)];
  if (state.fault == LaneFault::device) return handler_.onDriverFailed(run.executor->failure(run));
  const int peer = run.program->connections[static_cast<size_t>(state.faultConnection)].peer;
  if (state.fault == LaneFault::signature || state.fault == LaneFault::length) {
    handler_.onMismatch(run, peer, state);
  } else if (state.fault == LaneFault::poisoned) {
    handler_.onPeerFailed(run, peer, whyPoisoned(run, state.faultConnection));
  } else {
    handler_.onPeerFailed(
        run, peer,
        {state.fault == LaneFault::epoch ? "it sent a message of an earlier life of the communicator"
                                         : "it sent a reference to memory it has not shown"});
  }
}

}  // namespace eccl::runtime
