#include "runtime/api/issue.h"

#include <algorithm>
#include <map>

namespace eccl::runtime {

void Batches::add(const std::shared_ptr<Stream>& stream, StreamItem item) {
  auto batch = std::find_if(batches_.begin(), batches_.end(), [&](auto& each) { return each.first == stream; });
  if (batch == batches_.end()) batch = batches_.insert(batch, {stream, {}});
  batch->second.push_back(std::move(item));
}

Status Batches::announce() const {
  for (const auto& [stream, batch] : batches_) ECCL_TRY(stream->announce(batch));
  return {};
}

Status Batches::append() {
  if (batches_.size() > 1) ECCL_TRY(announce());
  for (auto& [stream, batch] : batches_) ECCL_TRY(stream->append(std::move(batch)));
  return {};
}

bool Batches::mayWait() const {
  return batches_.size() == 1 && batches_.front().first->mayWait(batches_.front().second);
}

// A Send and a Recv of one rank to itself are one copy. Pairs them, in order, and drops the Recvs.
Status Issue::pairSelfSends(Calls& all) {
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

Status Issue::plan(const GroupCalls& group) {
  std::map<ecclComm_t, size_t> known;
  for (size_t s = 0; s < group.series().size(); ++s) {
    const ecclComm_t comm = group.place(s).comm;
    const auto [at, isNew] = known.emplace(comm, all_.size());
    if (isNew) {
      ECCL_ASSIGN(CommunicatorUse use, communicatorOf(comm, "ecclGroupEnd"));
      all_.push_back({std::move(use), {}, {}, {}});
    }
    const CallSeries& series = group.series()[s];
    for (size_t i = 0; i < series.calls; ++i) {
      all_[at->second].calls.push_back(group.call(s, series.first + i));
      all_[at->second].streams.push_back({group.streamOf(s)});
    }
  }
  for (Calls& its : all_) {
    ECCL_TRY(pairSelfSends(its));
    ECCL_ASSIGN(its.items, its.use->communicator->plan(std::move(its.calls), its.streams));
    for (size_t call = 0; call < its.items.size(); ++call) {
      for (const auto& stream : its.streams[call]) {
        ECCL_TRY(its.use->communicator->orFault(stream->prepare(*its.items[call].run)));
        batches_.add(stream, its.items[call]);
      }
    }
  }
  return {};
}

Status Issue::number() {
  return rejectIf(guarded("ecclGroupEnd", [&]() -> Status {
    auto list = communicators();
    std::sort(list.begin(), list.end());
    for (const auto& each : list) held_.push_back(each->holdCalls());
    for (const auto& each : list) ECCL_TRY(each->usable());  // to prepare the calls may have taken long
    while (numbered_ < all_.size()) {
      const Calls& next = all_[numbered_++];  // counts even if it fails half-way
      ECCL_TRY(next.use->communicator->number(next.items));
    }
    const auto carried = [](const StreamItem& item) { return item.run->executor->carries(*item.run); };
    if (std::ranges::any_of(all_, [&](const Calls& its) { return std::ranges::any_of(its.items, carried); }))
      held_.clear();
    return {};
  }));
}

bool Issue::mayWait() const {
  bool may = false;
  const auto ask = [&] {
    may = all_.size() == 1 && !all_.front().use->communicator->options().blocking && batches_.mayWait();
    return Status();
  };
  guarded("ecclGroupEnd", ask).ignore();  // finish() says what is wrong
  return may;
}

Status Issue::finish() {
  return rejectIf(guarded("ecclGroupEnd", [&]() -> Status {
    ECCL_TRY(batches_.append());
    for (; submitted_ < all_.size(); ++submitted_) submit(all_[submitted_].items);
    held_.clear();
    return {};
  }));
}

// Calls that have a number but will not be made: their communicators cannot go on.
Status Issue::rejectIf(const Status& failed) {
  if (failed.ok()) return {};
  for (; submitted_ < numbered_; ++submitted_) {
    all_[submitted_].use->communicator->fault(failed, true);
    for (StreamItem& item : all_[submitted_].items) item.engine->reject(*item.run, failed);
  }
  held_.clear();
  return failed;
}

// The other ranks wait for what is announced, and the caller may keep all others out of the driver from now on.
Status Issue::goOnInBackground(std::shared_ptr<Issue> issue) {
  const CommunicatorUse kept = issue->all_.front().use.again();
  Communicator& communicator = *kept->communicator;
  ECCL_TRY(issue->rejectIf(guarded("ecclGroupEnd", [&] { return issue->batches_.announce(); })));
  communicator.beginIssuing(apiNameOf(issue->all_.front().items.front().run->call.collective));
  const auto go = [issue, &communicator] {
    const Status status = guarded("ecclGroupEnd", [&] { return issue->finish(); });
    communicator.endIssuing();
    issue->all_.clear();  // whoever ends the communicator waits until nobody uses its handle
    return status;
  };
  const Status started = guarded("ecclGroupEnd", [&] {
    return kept->jobs.start([go] { go().ignore(); });  // told by asyncStatus()
  });
  if (!started.ok()) return go();
  return Status::error(Code::inProgress, "the call waits for those of other ranks; poll ecclCommGetAsyncError");
}

std::vector<std::shared_ptr<Communicator>> Issue::communicators() const {
  std::vector<std::shared_ptr<Communicator>> list;
  for (const Calls& its : all_) list.push_back(its.use->communicator);
  return list;
}

}  // namespace eccl::runtime
