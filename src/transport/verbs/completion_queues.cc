#include "transport/verbs/completion_queues.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/verbs/locked_memory.h"

namespace eccl::transport::verbs {
namespace {

constexpr int kUsualEntries = 4096;
constexpr int kBatchesPerPoll = 8;  // then others have their turn

}  // namespace

CompletionQueues::~CompletionQueues() {
  if (channel_ != nullptr) reactor_.forget(channel_->fd, this);
  for (Queue& each : queues_)
    if (each.unacknowledged > 0) ibv_ack_cq_events(each.queue.get(), each.unacknowledged);
}

Status CompletionQueues::open() {
  channel_.reset(ibv_create_comp_channel(context_));
  if (channel_ == nullptr) return Status::fromErrno(errno, "the device gives no completion channel");
  if (fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return Status::fromErrno(errno, "its completion channel cannot be read without waiting");
  return reactor_.watch(channel_->fd, EPOLLIN, this);
}

Result<size_t> CompletionQueues::queueFor(uint32_t entries) {
  const auto hasRoom = [entries](const Queue& queue) { return queue.capacity - queue.taken >= entries; };
  const auto found = std::find_if(queues_.begin(), queues_.end(), hasRoom);
  if (found != queues_.end()) return static_cast<size_t>(found - queues_.begin());
  const int wanted = std::max(kUsualEntries, static_cast<int>(entries));
  CompletionHandle queue(ibv_create_cq(context_, wanted, nullptr, channel_.get(), 0));
  if (queue == nullptr) {
    const int error = errno;
    return Status::fromErrno(error, "%s gives no completion queue of %d entries%s",
                             ibv_get_device_name(context_->device), wanted, limitOnLockedMemory(error).c_str());
  }
  const auto capacity = static_cast<uint32_t>(queue->cqe);
  queues_.push_back({std::move(queue), capacity});
  armed_ = false;  // the new one is not
  return queues_.size() - 1;
}

Result<ibv_cq*> CompletionQueues::join(uint32_t entries, CompletionUser* user, uint32_t* number) {
  ECCL_ASSIGN(const size_t index, queueFor(entries));
  queues_[index].taken += entries;
  *number = static_cast<uint32_t>(users_.size());
  users_.push_back({user, index, entries});
  return queues_[index].queue.get();
}

void CompletionQueues::leave(uint32_t number) {
  User& user = users_[number];
  queues_[user.queue].left += user.entries;
  user.user = nullptr;
}

void CompletionQueues::tellFetched() {
  while (fetchedAt_ < fetchedCount_) {
    const ibv_wc done = fetched_[fetchedAt_++];
    const auto number = static_cast<uint32_t>(done.wr_id >> 32);
    if (number < users_.size() && users_[number].user != nullptr) users_[number].user->onCompletion(done);
  }
}

// Else users would wait for completions that never come.
void CompletionQueues::fail(const std::string& what) {
  if (!std::exchange(failed_, true)) onFailure_(what);
}

bool CompletionQueues::poll() {
  bool any = fetchedAt_ < fetchedCount_;
  tellFetched();
  for (size_t i = 0; i < queues_.size(); ++i) {
    for (int batch = 0; batch < kBatchesPerPoll; ++batch) {
      fetchedCount_ = fetchedAt_ = 0;
      const int count = ibv_poll_cq(queues_[i].queue.get(), kBatch, fetched_);
      fetchedCount_ = std::max(count, 0);
      if (count < 0) fail("its completion queue cannot be read");
      any |= count > 0;
      tellFetched();
      if (count <= 0) queues_[i].taken -= std::exchange(queues_[i].left, 0);
      if (count < kBatch) break;
    }
  }
  return any;
}

void CompletionQueues::arm() {
  if (armed_) return;
  armed_ = true;
  for (Queue& each : queues_) {
    if (const int error = ibv_req_notify_cq(each.queue.get(), 0); error != 0)
      fail(Status::fromErrno(error, "its completion queue does not wake anybody").message());
  }
  // What was done before is told by nobody.
  if (poll()) reactor_.ring();
}

void CompletionQueues::onReady(uint32_t events) {
  // A device that is gone would wake the driver for ever; its events say what has become of it.
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) reactor_.forget(channel_->fd, this);
  ibv_cq* of = nullptr;
  for (void* unused = nullptr; ibv_get_cq_event(channel_.get(), &of, &unused) == 0;) {
    for (Queue& each : queues_)
      if (each.queue.get() == of) ++each.unacknowledged;
  }
  armed_ = false;
  poll();
}

// The file keeps what the parent has there, and its pinned memory, as long as a child has it open.
void CompletionQueues::closeAfterFork() {
  if (channel_ != nullptr) close(channel_->fd);
  channel_.release();
  for (Queue& each : queues_) each.queue.release();
  queues_.clear();
}

}  // namespace eccl::transport::verbs
