// How a communicator makes calls: planned, numbered and given to the engine, or by the fast path.

#include <algorithm>

#include "base/log.h"
#include "runtime/communicator/communicator.h"

namespace eccl::runtime {

// No argument is wrong where a device fails: this rank cannot go on, and the others must not wait for it.
Status Communicator::orFault(Status why) {
  if (why.code() == Code::device) fault(why, true);
  return why;
}

Status Communicator::plan(Run& run, Call call, bool callerBlocked) {
  const UsedBuffers buffers = buffersOf(call, rank_, ranks_);
  const auto executor = engine_.executors().of(buffers.send, buffers.receive);
  Status status =
      executor.ok() ? engine_.executors().admit("operator's scalar", call.preMul.scalar) : executor.status();
  if (!status.ok())
    return orFault(Status::error(status.code(), "%s on rank %d: %s", nameOf(call.collective), rank_,
                                 status.message().c_str()));
  run.executor = *executor;
  ECCL_ASSIGN(run.plan, planner_->plan(call));
  bind(run, std::move(call), buffers);
  run.record.callerBlocked = callerBlocked;
  return {};
}

void Communicator::bind(Run& run, Call call, const UsedBuffers& buffers) {
  run.record = recordOf(call, rank_);
  run.callSignature = run.record.signature;
  run.view.plan = &run.plan->view;
  run.view.buffers[static_cast<int>(Space::input)] = static_cast<std::byte*>(const_cast<void*>(buffers.send));
  run.view.buffers[static_cast<int>(Space::output)] =
      static_cast<std::byte*>(const_cast<void*>(buffers.receive));
  run.call = std::move(call);
}

// By the driver. What calls of graphs have in common with others is the communicator alone.
std::shared_ptr<Run> Communicator::onReplay(Run& captured) {
  auto run = std::make_shared<Run>();
  run->executor = captured.executor;
  run->plan = captured.plan;
  bind(*run, captured.call, buffersOf(captured.call, rank_, ranks_));
  run->record.scope |= CallRecord::kInGraphs;
  return number(*run).ok() ? run : nullptr;
}

// A copy to oneself has no other end that could disagree.
Status Communicator::number(Run& run) {
  const bool local = run.call.pointToPoint() && run.call.root == rank_;
  return local ? Status() : remember(run.record, run.record.shape(), *run.plan, "");
}

Status Communicator::remember(CallRecord& record, uint64_t shape, const Plan& plan, const char* way,
                              size_t calls) {
  if (!diagnosis_.remember(record, shape, calls)) return asyncStatus();
  if (logEnabled(LogLevel::trace)) trace(record, plan, way, calls);
  return {};
}

void Communicator::trace(const CallRecord& record, const Plan& plan, const char* way, size_t calls) const {
  for (size_t i = 0; i < calls; ++i) {
    ECCL_TRACE("%s: %s number %llu by %s%s", options_.name.c_str(), record.text().c_str(),
               static_cast<unsigned long long>(record.sequence + i), plan.algorithm, way);
  }
}

Result<std::vector<StreamItem>> Communicator::plan(std::vector<Call> calls,
                                                   const std::vector<Streams>& streams) {
  ECCL_TRY(usable());
  std::lock_guard lock(calls_);
  std::vector<StreamItem> items;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto run = std::make_shared<Run>();
    run->holds = static_cast<int>(streams[i].size());
    ECCL_TRY(plan(*run, std::move(calls[i]), options_.blocking && streams[i].front() == defaultStream_));
    items.push_back(itemOf(std::move(run)));
  }
  return items;
}

Status Communicator::number(const std::vector<StreamItem>& items) {
  for (const StreamItem& item : items) ECCL_TRY(number(*item.run));
  return {};
}

Status Communicator::enqueue(Call call, Stream& stream) {
  ECCL_TRY(usable());
  const StreamItem item = itemOf(std::make_shared<Run>());
  Run& run = *item.run;
  run.holds = 1;
  std::unique_lock lock(calls_);
  ECCL_TRY(plan(run, std::move(call), options_.blocking && &stream == defaultStream_.get()));
  if (device() != nullptr) {
    lock.unlock();
    ECCL_TRY(orFault(stream.prepare(run)));
    lock.lock();
    ECCL_TRY(usable());  // that may have taken long
  }
  // From its number on the other ranks count on the call.
  const Status status = guarded(apiNameOf(run.call.collective), [&]() -> Status {
    ECCL_TRY(number(run));
    if (run.executor->carries(run)) lock.unlock();
    ECCL_TRY(stream.append({item}));
    submit({&item, 1});
    return {};
  });
  if (status.ok()) return {};
  fault(status, true);
  engine_.reject(run, status);
  return status;
}

// Nothing is allocated for a call like the one before. Others may still look at a Run that stalled, or be in
// it.
std::shared_ptr<Run> Communicator::spareRun() {
  if (spare_ == nullptr || spare_.use_count() > 1) spare_ = std::make_shared<Run>();
  // Counting down is an acquire too, so that the last use of it came before. ThreadSanitizer sees no fences.
  std::shared_ptr<Run>(spare_).reset();
  spare_->reset();
  return spare_;
}

Status Communicator::execute(Call call) {
  ECCL_TRY(usable());
  std::unique_lock lock(calls_);
  const std::shared_ptr<Run> run = spareRun();
  ECCL_TRY(plan(*run, std::move(call), true));
  // From its number on the other ranks count on the call.
  const Status status = guarded(apiNameOf(run->call.collective), [&]() -> Status {
    ECCL_TRY(number(*run));
    engine_.execute(run, std::move(lock));
    return {};
  });
  if (status.ok()) return run->status;
  fault(status, true);
  return status;
}

// A call that the fast path has begun and numbered.
void Communicator::goOn(Run& run, const std::shared_ptr<Plan>& plan, const CallRecord& record, Call call,
                        bool waits) {
  ECCL_TRACE("number %llu goes on as a Run: a peer is late, or sends something else",
             static_cast<unsigned long long>(record.sequence));
  run.plan = plan;
  run.executor = &engine_.executors().host();
  run.record = record;
  run.record.callerBlocked = waits;
  run.call = std::move(call);
}

std::optional<Status> Communicator::repeat(const PlainCalls& calls, bool waits, const Append& append) {
  if (state() != State::ready || device() != nullptr) return std::nullopt;
  FastGroup* const group = engine_.claim(calls);
  if (group == nullptr) return std::nullopt;
  // Now nobody can finish finalizing.
  std::unique_lock others(calls_, std::try_to_lock);
  const bool usable = others.owns_lock() && !engine_.news() && state() == State::ready &&
                      std::all_of(calls.buffers.begin(), calls.buffers.end(), [&](const auto& its) {
                        return engine_.executors().onHost(its.send, its.receive);
                      });
  if (!usable) {
    engine_.leave();
    return std::nullopt;
  }
  // From their numbers on the other ranks count on the calls.
  Status status = guarded("ecclGroupEnd", [&]() -> Status {
    for (FastGroup::Member& member : group->members())
      ECCL_TRY(
          remember(member.record, member.path->shape(), **member.plan, ", fast path", member.series.calls));
    return {};
  });
  if (!status.ok()) {
    engine_.leave();
    fault(status, true);
    return status;
  }
  others.unlock();
  if (engine_.drive(*group, !waits)) return Status();
  std::vector<std::shared_ptr<Run>> runs;
  status = guarded("ecclGroupEnd", [&]() -> Status {
    runs.resize(calls.buffers.size());
    for (const FastGroup::Member& member : group->members()) {
      for (size_t i = member.complete; i < member.series.calls; ++i) {
        const size_t call = member.series.first + i;
        runs[call] = std::make_shared<Run>();
        goOn(*runs[call], *member.plan, member.recordOf(i),
             PlainCall{member.series.key, calls.buffers[call]}.call(), waits);
        runs[call]->holds = 1;
      }
    }
    return append(runs);
  });
  if (status.ok()) {
    engine_.goOn(runs, *group, waits);
    return Status();
  }
  engine_.leave();
  fault(status, true);
  for (const auto& run : runs) {
    if (run != nullptr) engine_.reject(*run, status);
  }
  return status;
}

bool Communicator::repeat(const PlainCall& call, Stream* queue, Status* status) {
  const bool waits = queue == nullptr;
  Stream& stream = waits ? *defaultStream_ : *queue;
  if (state() != State::ready || device() != nullptr || (waits && !options_.blocking)) return false;
  if (!stream.idle()) {
    engine_.catchUp();
    if (!stream.idle()) return false;
  }
  const std::shared_ptr<Plan>* plan = engine_.claim(call.key);
  if (plan == nullptr) return false;
  FastPath& fastPath = *(*plan)->fastPath();
  // Now nobody can finish finalizing.
  const auto [send, receive] = call.buffers;
  const bool usable = state() == State::ready && engine_.executors().onHost(send, receive);
  if (!usable || !fastPath.accepts(send, receive)) {
    engine_.leave();
    return false;
  }
  // From its number on the other ranks count on the call.
  CallRecord record = fastPath.record();
  const char* const name = apiNameOf(call.key.collective);
  bool numbered = false;
  const auto others = [this] { return calls_.isTaken() || engine_.news(); };
  const auto number = [&]() -> Status {
    if (!diagnosis_.rememberUnless(others, record, fastPath.shape(), &numbered)) return asyncStatus();
    if (numbered && logEnabled(LogLevel::trace)) trace(record, **plan, ", fast path", 1);
    return {};
  };
  Status failed = guarded(name, number);
  if (failed.ok() && !numbered) {
    engine_.leave();
    return false;
  }
  if (!failed.ok()) {
    engine_.leave();
    fault(failed, true);
    *status = std::move(failed);
    return true;
  }
  fastPath.begin(send, receive, record.signature);
  if (engine_.drive(fastPath, !waits)) return true;
  std::shared_ptr<Run> run;
  *status = guarded(name, [&]() -> Status {
    run = std::make_shared<Run>();
    goOn(*run, *plan, record, call.call(), waits);
    run->holds = waits ? 0 : 1;
    return waits ? Status() : stream.append({itemOf(run)});
  });
  if (!status->ok()) {
    engine_.leave();
    fault(*status, true);
    if (run != nullptr) engine_.reject(*run, *status);
  } else if (!waits) {
    engine_.submit(run, fastPath);
  } else {
    engine_.execute(run, fastPath);
    *status = run->status;
  }
  return true;
}

}  // namespace eccl::runtime
