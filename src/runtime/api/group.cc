// Groups: what is collected between start and end, how it is issued, and how sends and receives of a rank to
// itself are paired.
#include "runtime/api/group.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/per_thread.h"
#include "base/system.h"

namespace eccl::runtime {
namespace {

/// Calls of one communicator, in their order.
struct Calls {
  CommunicatorUse use;
  std::vector<Call> calls;
  /// By call: those it has its place in. Two for a copy to oneself whose Send and Recv are on different ones.
  std::vector<std::vector<std::shared_ptr<Stream>>> streams;
};

/// A Send and a Recv of one rank to itself are one copy. Pairs them, in order, and drops the Recvs.
Status pairSelfSends(Calls& all) {
  const int rank = all.use->communicator->rank();
  std::vector<Call>& calls = all.calls;
  std::vector<size_t> sends, receives;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].pointToPoint() || calls[i].root != rank) continue;
    (calls[i].collective == Collective::send ? sends : receives).push_back(i);
  }
  if (sends.size() != receives.size()) {
    return Status::error(
        Code::invalidUsage,
        "rank %d has %zu ecclSend and %zu ecclRecv to itself; each needs its partner in the same group", rank,
        sends.size(), receives.size());
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    Call &send = calls[sends[i]], &receive = calls[receives[i]];
    if (send.count != receive.count || send.type != receive.type) {
      return Status::error(Code::invalidUsage, "rank %d sends itself %zu %s and receives %zu %s", rank,
                           send.count, nameOf(send.type), receive.count, nameOf(receive.type));
    }
    send.receive = receive.receive;
    auto& streams = all.streams[sends[i]];
    if (all.streams[receives[i]] != streams) streams.push_back(all.streams[receives[i]].front());
  }
  for (size_t i = receives.size(); i-- > 0;) {
    calls.erase(calls.begin() + static_cast<ptrdiff_t>(receives[i]));
    all.streams.erase(all.streams.begin() + static_cast<ptrdiff_t>(receives[i]));
  }
  return {};
}

/// What each stream gets.
using Batches = std::vector<std::pair<std::shared_ptr<Stream>, std::vector<StreamItem>>>;

void addTo(Batches& batches, const std::shared_ptr<Stream>& stream, StreamItem item) {
  auto batch = std::find_if(batches.begin(), batches.end(), [&](auto& each) { return each.first == stream; });
  if (batch == batches.end()) batch = batches.insert(batch, {stream, {}});
  batch->second.push_back(std::move(item));
}

Status append(Batches& batches) {
  for (auto& [stream, batch] : batches) ECCL_TRY(stream->append(std::move(batch)));
  return {};
}

/// After calls with the NULL stream.
Status afterNullStream(const Communicator& communicator) {
  const auto& stream = communicator.defaultStream();
  if (communicator.options().blocking) return stream->synchronize();
  NullStream::ofThisThread().remember(stream);
  return {};
}

}  // namespace

Group& Group::ofThisThread() {
  return PerThread<Group>::get();
}

Status Group::add(ecclComm_t comm, const CommunicatorUse& use, std::shared_ptr<Stream> stream, Call call) {
  Communicator& communicator = *use->communicator;
  const bool nullStream = stream == nullptr;
  if (nullStream) stream = communicator.defaultStream();
  const bool toSelf = call.pointToPoint() && call.root == communicator.rank();
  if (open() || toSelf) {
    std::vector<Entry> one;
    auto& entries = open() ? entries_ : one;
    entries.push_back({comm, std::move(stream), nullStream, std::move(call)});
    return open() ? Status() : issue(std::move(one));
  }
  if (nullStream && communicator.options().blocking && stream->idle())
    return communicator.execute(std::move(call));
  ECCL_TRY(communicator.enqueue(std::move(call), *stream));
  return nullStream ? afterNullStream(communicator) : Status();
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
  auto entries = std::move(entries_);
  auto jobs = std::move(jobs_);
  Status error = std::exchange(error_, Status());
  entries_.clear();
  jobs_.clear();
  if (!error.ok()) {
    for (const Job& job : jobs) job(error).ignore();  // it answers with the same
    return error;
  }
  ECCL_TRY(runJobs(jobs));
  return issue(std::move(entries));
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
  const auto entries = std::exchange(entries_, {});
  const auto jobs = std::exchange(jobs_, {});
  Status error = std::exchange(error_, Status());
  if (error.ok() && !jobs.empty())
    error = Status::error(Code::invalidUsage, "a group that makes communicators cannot be simulated");
  for (const Job& job : jobs) job(error).ignore();  // it answers with the same
  ECCL_TRY(error);
  struct Sums {
    double collectives = 0, sends = 0, receives = 0;
  };
  std::map<ecclComm_t, Sums> sums;
  for (const Entry& entry : entries) {
    ECCL_ASSIGN(const CommunicatorUse use, communicatorOf(entry.comm, "ecclGroupSimulateEnd"));
    ECCL_ASSIGN(const double time, use->communicator->estimator().estimate(entry.call));
    Sums& its = sums[entry.comm];
    (entry.call.collective == Collective::send      ? its.sends
     : entry.call.collective == Collective::receive ? its.receives
                                                    : its.collectives) += time;
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
    for (const Job& job : jobs) job(ready).ignore();  // it answers with the same
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
std::optional<Status> Group::repeat(const std::vector<Entry>& entries) {
  if (entries.empty()) return std::nullopt;
  const auto use = communicatorOf(entries.front().comm, "ecclGroupEnd");
  if (!use.ok()) return std::nullopt;  // said by issue()
  Communicator& communicator = *(*use)->communicator;
  const Stream* idle = nullptr;
  bool waits = communicator.options().blocking;
  std::vector<const Call*> calls;
  calls.reserve(entries.size());
  for (const Entry& entry : entries) {
    const Call& call = entry.call;
    if (entry.comm != entries.front().comm || !call.pointToPoint() || call.root == communicator.rank())
      return std::nullopt;
    if (entry.stream.get() != idle && !entry.stream->idle()) communicator.catchUp();
    if (entry.stream.get() != idle && !entry.stream->idle()) return std::nullopt;
    idle = entry.stream.get();
    waits &= entry.nullStream;
    calls.push_back(&call);
  }
  auto made = communicator.repeat(calls, waits, [&](std::span<const std::shared_ptr<Run>> runs) {
    Batches batches;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i] != nullptr) addTo(batches, entries[i].stream, communicator.itemOf(runs[i]));
    }
    return append(batches);
  });
  const bool used =
      std::any_of(entries.begin(), entries.end(), [](const Entry& entry) { return entry.nullStream; });
  if (!made || !used) return made;
  Status status = afterNullStream(communicator);
  return made->ok() ? status : *made;
}

// What Communicator::enqueue() does for one call, in four steps. All calls are planned: nothing has happened
// yet if one cannot be. Each communicator numbers its calls in the order in which they were made, whatever
// their streams: the same order as on the other ranks. Streams give all calls that the group puts into them one
// place. Then the engines get the calls, again in their order; those whose place is not the first wait in the
// engine.
Status Group::issue(std::vector<Entry> entries) {
  if (auto made = repeat(entries)) return *std::move(made);
  std::vector<Calls> all;
  std::map<ecclComm_t, size_t> known;
  for (Entry& entry : entries) {
    const auto [at, isNew] = known.emplace(entry.comm, all.size());
    if (isNew) {
      ECCL_ASSIGN(CommunicatorUse use, communicatorOf(entry.comm, "ecclGroupEnd"));
      all.push_back({std::move(use), {}, {}});
    }
    all[at->second].calls.push_back(std::move(entry.call));
    all[at->second].streams.push_back({entry.stream});
  }
  std::vector<std::vector<StreamItem>> items(all.size());
  Batches batches;
  for (size_t i = 0; i < all.size(); ++i) {
    Calls& its = all[i];
    ECCL_TRY(pairSelfSends(its));
    ECCL_ASSIGN(items[i], its.use->communicator->plan(std::move(its.calls), its.streams));
    for (size_t call = 0; call < items[i].size(); ++call) {
      for (const auto& stream : its.streams[call]) addTo(batches, stream, items[i][call]);
    }
  }
  size_t numbered = 0, submitted = 0;
  Status first = guarded("ecclGroupEnd", [&]() -> Status {
    while (numbered < items.size()) {
      const size_t next = numbered++;  // counts even if it fails half-way
      ECCL_TRY(all[next].use->communicator->number(items[next]));
    }
    ECCL_TRY(append(batches));
    for (; submitted < items.size(); ++submitted) submit(items[submitted]);
    return {};
  });
  // Calls that have a number but will not be made: their communicators cannot go on.
  for (; submitted < numbered; ++submitted) {
    all[submitted].use->communicator->fault(first, true);
    for (StreamItem& item : items[submitted]) item.engine->reject(*item.run, first);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Communicator& communicator = *all[i].use->communicator;
    const bool used = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
      return entry.nullStream && entry.stream == communicator.defaultStream();
    });
    if (!used) continue;
    Status status = afterNullStream(communicator);
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
