#include "runtime/execution/fast_group.h"

#include <algorithm>

#include "runtime/execution/plan.h"
#include "runtime/execution/run.h"

namespace eccl::runtime {

void FastGroup::begin(std::span<const CallBuffers> buffers) {
  buffers_ = buffers;
  members_.clear();
  queues_.clear();
  polled_ = 0;
}

bool FastGroup::add(const std::shared_ptr<Plan>& plan, const CallSeries& series) {
  const size_t index = members_.size();
  FastPath* const path = plan->fastPath();
  if (path->moves_.size() != 1 || !path->posts_.empty()) return false;
  members_.push_back({&plan, path, series, path->record()});
  transport::Connection* const connection = path->connections_.front();
  const auto its = std::find_if(queues_.begin(), queues_.end(),
                                [&](const Queue& queue) { return queue.connection == connection; });
  if (its == queues_.end()) {
    queues_.push_back({path, connection, index, index, index});
    polled_ += !path->sockets_.empty() && !connection->sends();
    return queues_.size() <= kMostQueues && polled_ <= kMaxPolled;
  }
  members_[its->last].next = index;
  its->last = index;
  return true;
}

// Makes every move that can be made. False: one is unusual. *awaited: an end at which a message is waited for.
bool FastGroup::advance(FastLooks::Patience patience, bool* moved, const ReceiveEnd** awaited) {
  for (Queue& queue : queues_) {
    while (queue.at != kNone) {
      Member& member = members_[queue.at];
      const size_t before = member.made;
      const FastPath::Answer answer =
          member.path->makeSeries(buffers_.subspan(member.series.first, member.series.calls),
                                  member.record.sequence, patience, &member.made);
      *moved |= member.made > before;
      if (answer == FastPath::Answer::unusual) return false;
      if (answer == FastPath::Answer::blocked) {
        *awaited = member.path->awaited_;
        break;
      }
      queue.at = member.next;
    }
  }
  return true;
}

bool FastGroup::made() const {
  return std::all_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.at == kNone; });
}

// Peers read nothing any more that messages refer to.
bool FastGroup::read() const {
  return std::all_of(queues_.begin(), queues_.end(),
                     [](const Queue& queue) { return queue.connection->isRead(); });
}

void FastGroup::kick() const {
  fullFence();  // one for all paths
  for (const Queue& queue : queues_) queue.connection->path()->kickAfterBarrier();
}

bool FastGroup::run(FastLooks::Manner manner, System& system, const std::function<bool()>& stop) {
  const auto every = [this](auto visit) {
    for (const Queue& queue : queues_) visit(*queue.any);
  };
  bool all = false;
  FastLooks::At at = FastLooks::At::memory;
  every([&](const FastPath& path) { at = std::max(at, path.at_); });
  for (FastLooks looks(manner, at, system);;) {
    bool moved = false;
    const ReceiveEnd* awaited = nullptr;
    FastLooks::Patience patience = looks.patience();
    patience.forGrowth = 0;  // what goes to and fro at once is slower if it grows
    const bool usual = advance(patience, &moved, &awaited);
    const bool allMade = made();
    all = allMade && read();
    if (all) break;
    if (usual && moved) {
      every([](const FastPath& path) { path.sendBySockets(); });
      looks.restart();
      continue;
    }
    if (allMade) every([](const FastPath& path) { path.settleSockets(); });  // peers drain, too
    if (looks.count()) {
      kick();
      every([&](const FastPath& path) {
        if (path.peersWaitHere()) looks.yieldFromNowOn();
      });
    }
    if (!usual || looks.over() || stop()) break;
    every([](const FastPath& path) { path.pollSockets(); });
    looks.rest(awaited);
  }
  kick();
  for (const Queue& queue : queues_) {
    queue.any->settleSockets();  // no Run will, for what is complete
    const bool read = queue.connection->isRead();
    for (size_t at = queue.first; at != kNone && members_[at].made > 0; at = members_[at].next)
      members_[at].complete = read ? members_[at].made : 0;
  }
  return all;
}

void FastGroup::handOver(const Member& member, size_t call, Run& run) const {
  FastPath::MovesOfLane& lane = member.path->lanes_.front();
  lane.at = call < member.made ? lane.end : lane.begin;
  member.path->handOver(run);
}

}  // namespace eccl::runtime
