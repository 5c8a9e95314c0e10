// Groups: what is collected between start and end.
#include "runtime/api/group.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/per_thread.h"
#include "base/system.h"
#include "runtime/api/issue.h"
#include "runtime/api/process.h"

namespace eccl::runtime {
namespace {

/// More elements than any buffer has are counted by validate().
constexpr size_t kAnotherMost = size_t{1} << 48;

/// After calls with the NULL stream.
Status afterNullStream(const Communicator& communicator) {
  const auto& stream = communicator.defaultStream();
  if (communicator.options().blocking) return stream->synchronize();
  NullStream::ofThisThread().remember(stream);
  return {};
}

/// The last one first, so that what they have taken goes back in order. Each answers with the same.
void refuse(const std::vector<Group::Job>& jobs, const Status& why) {
  for (auto job = jobs.rbegin(); job != jobs.rend(); ++job) (*job)(why).ignore();
}

}  // namespace

Group& Group::ofThisThread() {
  return PerThread<Group>::get();
}

Status Group::add(ecclComm_t comm, const CommunicatorUse& use, ecclStream_t handle,
                  std::shared_ptr<Stream> stream, Call call) {
  Communicator& communicator = *use->communicator;
  const bool nullStream = stream == nullptr;
  if (nullStream) stream = communicator.defaultStream();
  if (open()) {
    calls_.add(comm, stream, nullStream, std::move(call));
    last_ = {communicator.device() == nullptr ? comm : nullptr, handle, communicator.ranks(), UINT64_MAX};
    return {};
  }
  const bool mayGoOnInBackground = communicator.device() != nullptr && !communicator.options().blocking;
  if (mayGoOnInBackground || (call.pointToPoint() && call.root == communicator.rank())) {
    GroupCalls one;
    one.add(comm, stream, nullStream, std::move(call));
    return issue(one);
  }
  if (nullStream && communicator.options().blocking && stream->idle())
    return communicator.execute(std::move(call));
  ECCL_TRY(communicator.enqueue(std::move(call), *stream));
  return nullStream ? afterNullStream(communicator) : Status();
}

// What is not valid is worded by those who look at it properly. Whether the communicator can still be used is
// asked when the group ends.
bool Group::addAnother(ecclComm_t comm, ecclStream_t stream, const PlainCall& call) {
  const CallKey& key = call.key;
  const void* const buffer = key.collective == Collective::send ? call.buffers.send : call.buffers.receive;
  if (comm == nullptr || comm != last_.comm || stream != last_.stream || !isPointToPoint(key.collective) ||
      buffer == nullptr || key.count > kAnotherMost || key.root < 0 || key.root >= last_.ranks)
    return false;
  if (const uint64_t taken = handlesTaken(); taken != last_.taken) {
    if (!process_.communicators.holds(comm) || (stream != nullptr && !process_.streams.holds(stream)))
      return false;
    last_.taken = taken;
  }
  calls_.addAnother(call);
  return true;
}

Status Group::addJob(Job job) {
  if (!open()) return job(Status());
  jobs_.push_back(std::move(job));
  return {};
}

void Group::judge(const Status& status) noexcept {
  if (open() && !status.ok() && status.code() != Code::inProgress && error_.ok()) error_ = status;
}

Status Group::end() {
  if (depth_ == 0) {
    return Status::error(Code::invalidUsage, "ecclGroupEnd without ecclGroupStart in this thread");
  }
  if (--depth_ > 0) return {};
  last_ = {};
  const std::vector<Job> jobs = std::exchange(jobs_, {});
  const Status error = std::exchange(error_, Status());
  const Status result = guarded("ecclGroupEnd", [&]() -> Status {
    if (error.ok()) {
      if (!jobs.empty()) ECCL_TRY(runJobs(jobs));
      return issue(calls_);
    }
    refuse(jobs, error);
    return error;
  });
  calls_.clear();
  return result;
}

/// Collectives of a communicator come one after the other; its sends and receives go on at the same time; so do
/// communicators.
Status Group::simulateEnd(double* microseconds) {
  if (depth_ == 0) {
    return Status::error(Code::invalidUsage, "ecclGroupSimulateEnd without ecclGroupStart in this thread");
  }
  if (--depth_ > 0)
    return Status::error(Code::invalidUsage,
                         "ecclGroupSimulateEnd ends an inner group; only the outermost can be simulated");
  last_ = {};
  const GroupCalls calls = std::exchange(calls_, {});
  const auto jobs = std::exchange(jobs_, {});
  Status error = std::exchange(error_, Status());
  if (error.ok() && !jobs.empty())
    error = Status::error(Code::invalidUsage, "a group that makes communicators cannot be simulated");
  refuse(jobs, error);
  ECCL_TRY(error);
  struct Sums {
    double collectives = 0, sends = 0, receives = 0;
  };
  std::map<ecclComm_t, Sums> sums;
  for (size_t s = 0; s < calls.series().size(); ++s) {
    const ecclComm_t comm = calls.place(s).comm;
    const CallSeries& series = calls.series()[s];
    ECCL_ASSIGN(const CommunicatorUse use, communicatorOf(comm, "ecclGroupSimulateEnd"));
    Sums& its = sums[comm];
    double& sum = series.key.collective == Collective::send      ? its.sends
                  : series.key.collective == Collective::receive ? its.receives
                                                                 : its.collectives;
    for (size_t i = 0; i < series.calls; ++i) {
      ECCL_ASSIGN(const double time, use->communicator->estimator().estimate(calls.call(s, series.first + i)));
      sum += time;
    }
  }
  *microseconds = 0;
  for (const auto& [comm, its] : sums)
    *microseconds = std::max(*microseconds, its.collectives + std::max(its.sends, its.receives));
  return {};
}

Status Group::runJobs(const std::vector<Job>& jobs) {
  std::vector<Status> results;
  std::vector<Thread> threads;
  const Status ready = guarded("ecclGroupEnd", [&] {
    results.resize(jobs.size());
    threads.reserve(jobs.size());
    return Status();
  });
  if (!ready.ok()) {
    refuse(jobs, ready);
    return ready;
  }
  for (size_t i = 1; i < jobs.size(); ++i) {
    const Status started = guarded("ecclGroupEnd", [&]() -> Status {
      ECCL_ASSIGN(Thread thread, System::real().start("eccl-job", [&, i] { results[i] = jobs[i](Status()); }));
      threads.push_back(std::move(thread));
      return {};
    });
    // Without a thread it cannot be done beside the others, who wait for it until their time limit.
    if (!started.ok()) results[i] = jobs[i](logged(started));
  }
  if (!jobs.empty()) results[0] = guarded("ecclGroupEnd", [&] { return jobs[0](Status()); });
  for (Thread& thread : threads) thread.join();
  for (Status& result : results) ECCL_TRY(std::move(result));
  return {};
}

// Sends and Recvs of one communicator like ones before take the fast path together.
std::optional<Status> Group::repeat(const GroupCalls& group) {
  if (group.empty()) return std::nullopt;
  const ecclComm_t comm = group.place(0).comm;
  const CommunicatorUse use = liveCommunicator(comm);
  if (!use) return std::nullopt;  // said by issue()
  Communicator& communicator = *use->communicator;
  bool blocks = communicator.options().blocking, used = false;
  for (size_t s = 0; s < group.series().size(); ++s) {
    const CallKey& key = group.series()[s].key;
    if (group.place(s).comm != comm || !isPointToPoint(key.collective) || key.root == communicator.rank())
      return std::nullopt;
    blocks &= group.place(s).nullStream;
    used |= group.place(s).nullStream;
  }
  for (const auto& stream : group.streams()) {
    if (!stream->idle()) communicator.catchUp();
    if (!stream->idle()) return std::nullopt;
  }
  auto made = communicator.repeat(group.plain(), blocks, [&](std::span<const std::shared_ptr<Run>> runs) {
    Batches batches;
    group.forEach([&](size_t series, size_t call) {
      if (runs[call] != nullptr) batches.add(group.streamOf(series), communicator.itemOf(runs[call]));
    });
    return batches.append();
  });
  if (!made || !used) return made;
  Status status = afterNullStream(communicator);
  return made->ok() ? status : *made;
}

Status Group::issue(const GroupCalls& group) {
  if (auto made = repeat(group)) return *std::move(made);
  auto issue = std::make_shared<Issue>();
  ECCL_TRY(issue->plan(group));
  const auto communicators = issue->communicators();
  Status first = issue->number();
  if (first.ok() && issue->mayWait()) return Issue::goOnInBackground(std::move(issue));
  if (first.ok()) first = issue->finish();
  // Whoever ends a communicator waits for those who use it. This thread may wait for another one's calls now.
  issue.reset();
  for (const auto& communicator : communicators) {
    bool used = false;
    for (size_t s = 0; s < group.series().size(); ++s)
      used |= group.place(s).nullStream && group.streamOf(s) == communicator->defaultStream();
    if (!used) continue;
    Status status = afterNullStream(*communicator);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

NullStream& NullStream::ofThisThread() {
  return PerThread<NullStream>::get();
}

void NullStream::remember(const std::shared_ptr<Stream>& stream) {
  bool known = false;
  std::erase_if(streams_, [&](const std::weak_ptr<Stream>& each) {
    const auto live = each.lock();
    known |= live == stream;
    return live == nullptr;
  });
  if (!known) streams_.push_back(stream);
}

Status NullStream::synchronize() {
  Status first;
  for (const auto& each : std::exchange(streams_, {})) {
    const auto stream = each.lock();
    if (stream == nullptr) continue;  // its communicator is gone, and so are the calls
    Status status = stream->synchronize();
    if (first.ok()) first = std::move(status);
  }
  return first;
}

Status NullStream::query() {
  Status first;
  std::erase_if(streams_, [&](const std::weak_ptr<Stream>& each) {
    const auto stream = each.lock();
    Status status = stream != nullptr ? stream->query() : Status();
    const bool ended = status.code() != Code::inProgress;
    // An error is told at once, what is unfinished only if there is none.
    if (!status.ok() && (first.ok() || (ended && first.code() == Code::inProgress))) first = std::move(status);
    return ended;
  });
  return first;
}

}  // namespace eccl::runtime
