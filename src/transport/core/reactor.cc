#include "transport/core/reactor.h"

#include <sys/eventfd.h>

#include <cerrno>

namespace eccl::transport {
namespace {

// Tags of events: a handler's address, or one of these.
constexpr uint64_t kDoorbell = 0;
constexpr uint64_t kForgotten = 1;

uint64_t tagOf(ReadyHandler* handler) {
  return reinterpret_cast<uintptr_t>(handler);
}

}  // namespace

Status Reactor::open() {
  ECCL_TRY(poller_.open());
  doorbell_->reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!*doorbell_) return Status::fromErrno(errno, "eventfd (raise 'ulimit -n'?)");
  return poller_.watch(doorbell_->get(), EPOLLIN, kDoorbell);
}

Status Reactor::watch(int fd, uint32_t events, ReadyHandler* handler) {
  return poller_.watch(fd, events, tagOf(handler));
}

void Reactor::forget(int fd, ReadyHandler* handler) {
  poller_.forget(fd);
  // Dropping an event of another descriptor of this handler does no harm: epoll reports it again.
  for (int i = fetchedAt_; i < fetchedCount_; ++i) {
    if (fetched_[i].data.u64 == tagOf(handler)) fetched_[i].data.u64 = kForgotten;
  }
}

bool Reactor::poll(int timeoutMs) {
  fetchedCount_ = epoll_wait(poller_.fd(), fetched_, kBatch, timeoutMs);
  for (fetchedAt_ = 0; fetchedAt_ < fetchedCount_;) {
    const epoll_event event = fetched_[fetchedAt_++];
    if (event.data.u64 == kForgotten) continue;
    if (event.data.u64 == kDoorbell) {
      uint64_t rings;
      [[maybe_unused]] ssize_t got =
          read(doorbell_->get(), &rings, sizeof rings);  // how often is of no interest
    } else {
      reinterpret_cast<ReadyHandler*>(event.data.u64)->onReady(event.events);
    }
  }
  const bool happened = fetchedCount_ > 0;
  fetchedCount_ = fetchedAt_ = 0;
  return happened;
}

void Reactor::ring() {
  ringBell(*doorbell_);
}

void ringBell(const Fd& bell) {
  const uint64_t one = 1;
  [[maybe_unused]] ssize_t put = write(bell.get(), &one, sizeof one);  // full: it rings already
}

void Reactor::closeAfterFork() {
  poller_.close();
  doorbell_->reset();
}

}  // namespace eccl::transport
