#include "runtime/group.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace eccl {
namespace {

/// A Send and a Recv of one rank to itself are one copy. Pairs them, in order, and drops the Recvs.
Status pairSelfSends(int rank, std::vector<Call>& calls) {
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
  }
  for (size_t i = receives.size(); i-- > 0;) calls.erase(calls.begin() + static_cast<ptrdiff_t>(receives[i]));
  return {};
}

}  // namespace

Group& Group::ofThisThread() {
  thread_local Group group;
  return group;
}

Status Group::add(ecclComm_t comm, std::shared_ptr<Communicator> communicator, std::shared_ptr<Stream> stream,
                  bool nullStream, Call call) {
  const bool toSelf = call.pointToPoint() && call.root == communicator->rank();
  if (!open() && nullStream && communicator->options().blocking && !toSelf && stream->idle()) {
    return communicator->execute(std::move(call));
  }
  std::vector<Entry> one;
  auto& entries = open() ? entries_ : one;
  entries.push_back({comm, std::move(communicator), std::move(stream), nullStream, std::move(call)});
  return open() ? Status() : issue(std::move(one), false);
}

Status Group::addJob(std::function<Status()> job) {
  if (!open()) return job();
  jobs_.push_back(std::move(job));
  return {};
}

Status Group::refuse(Status status) {
  if (open() && error_.ok() && status.code() != Code::inProgress) error_ = status;
  return status;
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
  if (!error.ok()) return error;
  ECCL_TRY(runJobs(std::move(jobs)));
  return issue(std::move(entries), true);
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
  const bool jobs = !std::exchange(jobs_, {}).empty();
  ECCL_TRY(std::exchange(error_, Status()));
  if (jobs) return Status::error(Code::invalidUsage, "a group that makes communicators cannot be simulated");
  struct Sums {
    double collectives = 0, sends = 0, receives = 0;
  };
  std::map<Communicator*, Sums> sums;
  for (const Entry& entry : entries) {
    ECCL_ASSIGN(const double time, entry.communicator->estimate(entry.call));
    Sums& its = sums[entry.communicator.get()];
    (entry.call.collective == Collective::send      ? its.sends
     : entry.call.collective == Collective::receive ? its.receives
                                                    : its.collectives) += time;
  }
  *microseconds = 0;
  for (const auto& [communicator, its] : sums)
    *microseconds = std::max(*microseconds, its.collectives + std::max(its.sends, its.receives));
  return {};
}

Status Group::runJobs(std::vector<std::function<Status()>> jobs) {
  std::vector<Status> results(jobs.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < jobs.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = jobs[i](); });
  }
  if (!jobs.empty()) results[0] = jobs[0]();
  for (std::thread& thread : threads) thread.join();
  for (Status& result : results) ECCL_TRY(std::move(result));
  return {};
}

Status Group::issue(std::vector<Entry> entries, bool grouped) {
  // By communicator, in the order of the calls; each communicator's Runs go to their streams as one batch.
  std::vector<Communicator*> order;
  std::map<Communicator*, std::vector<Entry*>> byCommunicator;
  for (Entry& entry : entries) {
    auto& list = byCommunicator[entry.communicator.get()];
    if (list.empty()) order.push_back(entry.communicator.get());
    list.push_back(&entry);
  }
  std::map<Stream*, std::vector<StreamItem>> batches;
  std::vector<std::shared_ptr<Stream>> streams;
  for (Communicator* communicator : order) {
    std::map<Stream*, std::vector<Call>> calls;
    std::vector<std::shared_ptr<Stream>> itsStreams;
    for (Entry* entry : byCommunicator[communicator]) {
      if (calls.count(entry->stream.get()) == 0) itsStreams.push_back(entry->stream);
      calls[entry->stream.get()].push_back(std::move(entry->call));
    }
    bool blocks = !grouped && communicator->options().blocking && entries[0].nullStream;
    for (auto& stream : itsStreams) {
      ECCL_TRY(pairSelfSends(communicator->rank(), calls[stream.get()]));
      ECCL_ASSIGN(auto items, communicator->prepare(std::move(calls[stream.get()]), blocks));
      auto& batch = batches[stream.get()];
      if (batch.empty()) streams.push_back(stream);
      batch.insert(batch.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    }
  }
  for (auto& stream : streams) stream->enqueue(std::move(batches[stream.get()]));
  if (!grouped && entries.size() == 1 && entries[0].nullStream && entries[0].communicator->options().blocking) {
    return entries[0].stream->synchronize();
  }
  return {};
}

}  // namespace eccl
